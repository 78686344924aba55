"""``python -m benchmarks.real.packages Packages.xz FOLDER``: tasks of use from the packages of Debian.

Packages.xz is ``dists/bookworm/main/binary-amd64/Packages.xz`` of any mirror (the licences of descriptions are those of
the packages: for evaluation only). One package of each source is a request: its short description asks for

- ``debian-depends``: the packages of other sources that it depends on, each with its name and short description,
- ``debian-tags``: its tags, such as "uitoolkit: gtk".

Items that more than a tenth of the requests, or fewer than 8, use are left out, and requests without an item or with
more than 20. Then: ``python -m benchmarks.real.use FOLDER --tasks debian-depends debian-tags``.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from email import message_from_string
from email.message import Message
from pathlib import Path

import numpy as np

MOST_SHARE, FEWEST, MOST_USED = 0.1, 8, 20
TESTS = 2000

Asked = list[tuple[str, list[str]]]  # requests, and the ids of the items that each used


def packages(file: Path) -> list[Message]:
    """Returns the description of each package."""
    blocks = lzma.decompress(file.read_bytes()).decode().split("\n\n")
    return [message_from_string(block) for block in blocks if block.strip()]


def source(package: Message) -> str:
    return str(package.get("Source", package["Package"])).split()[0]


def depends(all_packages: list[Message]) -> tuple[Asked, Callable[[str], str]]:
    """Returns the first package of each source that depends on others, and the text of a package."""
    of = {str(package["Package"]): package for package in all_packages}

    def used(package: Message) -> Iterator[str]:
        for one in str(package.get("Depends", "")).split(","):
            name = re.split(r"[ (|:]", one.strip())[0]  # of alternatives the first
            if name in of and source(of[name]) != source(package):
                yield name

    return _one_of_each_source(all_packages, used), lambda name: f"{name}: {of[name]['Description']}"


def tags(all_packages: list[Message]) -> tuple[Asked, Callable[[str], str]]:
    """Returns the first package of each source that has tags, and the text of a tag."""

    def used(package: Message) -> Iterator[str]:
        said = re.sub(r"\s+", "", str(package.get("Tag", "")))
        for facet, several, one in re.findall(r"([^,{}]+::)(?:\{([^}]*)\}|([^,{}]+))", said):
            yield from (facet + name for name in (several or one).split(","))

    return _one_of_each_source(all_packages, used), lambda tag: tag.replace("::", ": ").replace("-", " ")


def _one_of_each_source(all_packages: list[Message], used: Callable[[Message], Iterator[str]]) -> Asked:
    found: dict[str, tuple[str, list[str]]] = {}
    for package in all_packages:
        if source(package) not in found and (items := list(dict.fromkeys(used(package)))):
            found[source(package)] = str(package["Description"]), items
    return list(found.values())


def write_task(folder: Path, asked: Asked, text: Callable[[str], str], tests: int = TESTS) -> None:
    """Writes a task: the last ``tests`` requests, in an order drawn with seed 0, are the tests."""
    count = Counter(item for _, used in asked for item in used)
    items = [item for item, times in count.items() if FEWEST <= times <= MOST_SHARE * len(asked)]
    kept = frozenset(items)
    left = [(request, [item for item in used if item in kept]) for request, used in asked]
    there = [one for one in left if 1 <= len(one[1]) <= MOST_USED]
    if len(there) <= tests:
        raise SystemExit(f"{folder.name} has {len(there)} requests. Expected more than {tests} tests. Lower --tests.")
    write_files(folder, {item: text(item) for item in items}, there, tests)


def write_files(folder: Path, texts: Mapping[str, str], asked: Asked, tests: int) -> None:
    """Writes the files of a task: items by id, and requests in an order drawn with seed 0, the last of which test."""
    rows: list[dict[str, object]] = []
    for at, drawn in enumerate(np.random.default_rng(0).permutation(len(asked))):
        rows.append({"time": at, "cue": asked[drawn][0], "used": asked[drawn][1]})
    parts: dict[str, list[dict[str, object]]] = {
        "memories": [{"id": item, "text": text} for item, text in texts.items()],
        "experience": rows[:-tests],
        "test": rows[-tests:],
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in parts.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    print(f"{folder.name}: {len(texts):,} items, {len(rows) - tests:,} experiences, {tests:,} tests")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", type=Path, help="Packages.xz")
    parser.add_argument("folder", type=Path, help="where to write the folders of the tasks")
    parser.add_argument("--tests", type=int, default=TESTS, help=f"requests that are tests (default: {TESTS})")
    arguments = parser.parse_args()
    found = packages(arguments.packages)
    for name, task in (("debian-depends", depends), ("debian-tags", tags)):
        write_task(arguments.folder / name, *task(found), tests=arguments.tests)


if __name__ == "__main__":
    main()
