"""Writes results into ``benchmarks/notes/paper.md``, between ``<!-- results: experiment -->`` and ``<!-- end -->``."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from benchmarks.paper import EXPERIMENTS
from benchmarks.paper.setting import PROTOCOLS, NotRun, Setting

PAGE = Path(__file__).parent.parent / "notes" / "paper.md"
MARK = re.compile(r"(<!-- results: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
PICTURE_OF = {
    "main": ["paper-1-precision", "paper-2-discrimination"],
    "shuffle": ["paper-3-shuffle"],
    "held_out": ["paper-4-held-out"],
    "chains": ["paper-5-chains"],
    "selection": ["paper-6-selection"],
    "compared": ["paper-7-depth"],
    "coverage": ["paper-8-coverage"],
    "noise": ["paper-9-noise"],
}


def fill(setting: Setting, page: Path = PAGE) -> None:
    """Rewrites the tables and figures of every experiment that has a mark in the page."""
    page.write_text(
        MARK.sub(lambda found: found[1] + section(setting, found[2], page.parent) + found[3], page.read_text())
    )


def section(setting: Setting, experiment: str, folder: Path) -> str:
    """Returns the results of one experiment under both protocols, with figures; marks missing results."""
    lines = []
    for protocol in PROTOCOLS:
        one = replace(setting, protocol=protocol, read_only=True)
        command = f"python -m benchmarks.paper {experiment} --protocol {protocol} --config {setting.config}"
        try:
            tables = EXPERIMENTS[experiment].run(one)
        except NotRun as missing:
            lines.append(f"Protocol {protocol}: not run yet ({missing}). The command is `{command}`.\n")
            continue
        if not tables:
            continue
        raw = f"../results/{one.parts(experiment).name}.json"
        there = (setting.results / f"{one.parts(experiment).name}.json").exists()
        source = f"`{command}`" + (f", raw figures in [{Path(raw).name}]({raw})" if there else "")
        lines.append(f"**Protocol {protocol}** ({source})\n")
        lines += [f"{table.title}:\n\n{table.markdown()}\n" for table in tables]
    for name in PICTURE_OF.get(experiment, []):
        if (folder / "images" / f"{name}.png").exists():
            lines.append(f"![{name}](images/{name}.png)\n")
    return "\n".join(lines) + "\n"
