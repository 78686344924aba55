"""Tests every view of the explorer on real data in a real browser: completeness, errors, accessibility, numbers.

    python -m benchmarks.performance.explore_views [FOLDER]

FOLDER (or PAM_DATA_DIR) contains ``locomo/locomo5.json``, a dialogue of LoCoMo
(https://github.com/snap-research/locomo), and ``use/code-flask``: files and commits of flask, see
``benchmarks.real.use``. The index of the dialogue has its questions as feedback and is fitted. The repository is stored
as by ``pam-retriever git``. Each view is opened at 390 and 1,440 pixels, light and dark. Faults are content wider than
the window, a serious or critical finding of axe-core, an error in the console, a request to another machine, and hits
that differ from the results of ``recall`` and ``search``.

Needs the extras explore and text, playwright, and the Chromium of the system; UMAP if umap-learn is installed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks import report
from benchmarks.performance.explore import FLAGS
from benchmarks.real.data import find
from benchmarks.real.dialogue import read
from pam_retriever import PredictiveAssociativeIndex, Trajectory

AXE = Path(__file__).parents[2] / "tests" / "data" / "axe" / "axe.min.js"
WIDTHS, SCHEMES = (390, 1440), ("light", "dark")


def dialogue(folder: Path) -> tuple[PredictiveAssociativeIndex, dict[str, str]]:
    """Returns a dialogue of LoCoMo with times, sessions and its questions as feedback; and the views to open."""
    (talk, *_) = read(folder / "locomo" / "locomo5.json")
    index = PredictiveAssociativeIndex(dim=384, embedder="default")
    begun = [datetime.strptime(turn["date"], "%I:%M %p on %d %B, %Y") for turn in talk.turns]
    times = [
        at.replace(tzinfo=timezone.utc) + timedelta(minutes=turn["time"])
        for at, turn in zip(begun, talk.turns, strict=True)
    ]
    index.add(
        ids=[turn["id"] for turn in talk.turns],
        texts=[turn["text"] for turn in talk.turns],
        metadatas=[{"session": turn["session"], "speaker": turn["speaker"]} for turn in talk.turns],
        timestamps=times,
    )
    for session in dict.fromkeys(turn["session"] for turn in talk.turns):
        ids = [turn["id"] for turn in talk.turns if turn["session"] == session]
        index.observe(Trajectory(ids=ids, id=f"session {session}"))
    index.feedback([text for text, *_ in talk.questions], [sorted(used) for _, used, _ in talk.questions])
    index.fit(progress=False)
    question, used, _ = talk.questions[0]
    return index, {"question": question, "id": min(used), "session": "session 2", "field": "speaker"}


def repository(folder: Path) -> tuple[PredictiveAssociativeIndex, dict[str, str]]:
    """Returns files and commits of flask, stored as by ``pam-retriever git``; and the views to open."""
    task = folder / "use" / "code-flask"
    files, commits = (
        [json.loads(line) for line in (task / name).read_text("utf-8").splitlines()]
        for name in ("memories.jsonl", "experience.jsonl")
    )
    index = PredictiveAssociativeIndex(dim=384, embedder="default")
    paths = [one["text"].split("\n")[0] for one in files]
    metadatas = [{"kind": "file", "path": path, "name": path} for path in paths]
    index.add(ids=[one["id"] for one in files], texts=[one["text"] for one in files], metadatas=metadatas)
    several = [(at, list(dict.fromkeys(one["used"]))) for at, one in enumerate(commits)]
    index.observe_many([Trajectory(ids=used, id=f"commit {at}") for at, used in several if len(used) > 1])
    index.feedback(
        [one["cue"] for one in commits], [used for _, used in several], id=[f"commit {at}" for at, _ in several]
    )
    first = next(f"commit {at}" for at, used in several if len(used) > 1)
    id = max(files, key=lambda one: sum(one["id"] in used for _, used in several))["id"]
    return index, {"question": "fix session cookie domain", "id": id, "session": first, "field": "kind"}


def views(about: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Returns the fragment and a selector of the drawn contents of each view, by name."""
    id, question, session = (quote(about[name], safe="") for name in ("id", "question", "session"))
    found = {
        "ask": (f"ask?q={question}", "#answer[data-drawn] .hit"),
        "ask by id": (f"ask?id={id}", "#answer[data-drawn] .hit"),
        "why": (f"ask?id={id}&k=5", "#answer[data-drawn] .hit"),
        "map": ("map", "canvas[data-drawn]"),
        "map by a field": (f"map?by={about['field']}", "canvas[data-drawn]"),
        "neighbourhood": (f"map?id={id}&hops=3", "svg .node"),
        "memory": (f"memory?id={id}", "main .card"),
        "sessions": ("sessions", "main .list li"),
        "session": (f"sessions?id={session}&at=1", ".step[aria-current]"),
        "health": ("health", ".facts"),
    }
    return found | ({"map by UMAP": ("map?method=umap", "canvas[data-drawn]")} if find_spec("umap") else {})


def faults(browser: Any, address: str, index: PredictiveAssociativeIndex, about: dict[str, str]) -> Iterator[str]:
    """Returns the faults, one line each."""
    base = address.partition("/?")[0]
    for width in WIDTHS:
        for scheme in SCHEMES:
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            page.set_default_timeout(300_000)  # UMAP compiles before its first use
            page_errors: list[str] = []
            page.on("pageerror", lambda error, page_errors=page_errors: page_errors.append(str(error)))
            page.on(
                "console",
                lambda said, page_errors=page_errors: page_errors.append(said.text) if said.type == "error" else None,
            )
            page.on(
                "request",
                lambda sent, page_errors=page_errors: (
                    None if sent.url.startswith((base, "data:", "blob:")) else page_errors.append(sent.url)
                ),
            )
            for name, (fragment, drawn) in views(about).items():
                where = f"{name}, {width}, {scheme}"
                page.goto("about:blank")
                page.goto(f"{address}#{fragment}")
                page.wait_for_selector(drawn)
                yield from (f"{where}: {fault}" for fault in faults_of_view(page, name, index, about))
            yield from (f"{width}, {scheme}: {line}" for line in page_errors)
            context.close()


def faults_of_view(page: Any, name: str, index: PredictiveAssociativeIndex, about: dict[str, str]) -> Iterator[str]:
    """Returns the faults of the open view."""
    if name == "why":
        for button in page.get_by_role("button", name="Why").all():
            button.click()
        page.wait_for_function(
            "() => [...document.querySelectorAll('.why:not([hidden])')].every(one => one.querySelector('h3'))"
        )
    if name in ("ask", "ask by id"):
        query: dict[str, Any] = {"text": about["question"]} if name == "ask" else {"query": about["id"]}
        for column, hits in (("looks", index.search(**query)), ("happened", index.recall(**query, explain=True))):
            shown = page.locator(f"section[aria-labelledby={column}] .hit").evaluate_all(
                "all => all.map(one => [one.dataset.id, Number(one.dataset.score)])"
            )
            if shown != [[hit.id, hit.score] for hit in hits]:
                yield f"{column} are not those of the index"
    if page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") > 0:
        yield "wider than the window"
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    for one in found["violations"]:
        if one["impact"] in ("serious", "critical"):
            yield f"{one['id']}, {len(one['nodes'])} times, such as {one['nodes'][0]['html'][:150]}"


def main() -> None:
    """Tests the views of both data sets, prints the faults and writes them."""
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folder", type=Path, nargs="?", help="folder that contains locomo and use (default: PAM_DATA_DIR)"
    )
    folder = find(parser.parse_args().folder, (".",), __doc__ or "")
    results: dict[str, Any] = {}
    for name, make in (("LoCoMo", dialogue), ("flask", repository)):
        index, about = make(folder)
        began = time.perf_counter()
        with index.explore(browser=False, wait=False) as explorer, sync_playwright() as playwright:
            chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
            browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS, timeout=120_000)
            wrong = list(faults(browser, explorer.address, index, about))
            version = browser.version
            browser.close()
        looked_at = len(views(about)) * len(WIDTHS) * len(SCHEMES)
        print(f"{name}: {looked_at} views looked at, {len(wrong)} faults", *wrong, sep="\n  ")
        seconds = time.perf_counter() - began
        results[name] = {"memories": len(index), "views": list(views(about)), "looked at": looked_at, "faults": wrong}
        results[name] |= {"seconds": seconds, "chromium": version}
    report.write("performance/explore_views", {"widths": WIDTHS, "schemes": SCHEMES, "data": results})


if __name__ == "__main__":
    main()
