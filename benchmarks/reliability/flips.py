"""Damage to the files of an index: every change is detected, or has no effect.

    python -m benchmarks.reliability.flips                  # every byte of a small saved index
    python -m benchmarks.reliability.flips --limit 2000     # 2,000 random bytes of each file

Every byte of every file of a saved index is changed, one at a time, to another value; files are also truncated and
extended. ``load`` must reject the folder with an error of the library, or give the same answers as before. An index
whose writer was killed gets the same damage; it has a journal, and no checksum of the whole file.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks import report
from pam_retriever import FitConfig, PAMError, PredictiveAssociativeIndex
from pam_retriever.store.folder.repair import check
from pam_retriever.store.sqlite.database import SQLiteDatabase

DIM, MEMORIES = 4, 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--limit", type=int, help="number of bytes to change in each file (default: all)")
    parser.add_argument(
        "--killed", type=int, default=20_000, help="number of random changes to the index of a killed writer"
    )
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as made:
        saved, killed, journal = (Path(made) / name for name in ("saved", "killed", "journal"))
        make_saved(saved)
        make_killed(killed, settled=True)
        make_killed(journal, settled=False)
        random = np.random.default_rng(parsed.seed)
        results = {
            "saved": damage_each_byte(saved, parsed.limit, random),
            "saved, cut or grown": damage_length(saved, 200 if parsed.limit else 2_000, random),
            "killed writer": damage_at_random(killed, parsed.killed, random),
            "killed writer with a journal": damage_at_random(journal, parsed.killed // 10, random),
            "saved, check": check_at_random(saved, 200 if parsed.limit else 1_000, random),
        }
    path = report.write("reliability/flips", {"seed": parsed.seed, **results})
    print(*results.items(), path, sep="\n")
    sys.exit(any(count for name in results if name.startswith("saved") for count in _silent(results[name])))


def _silent(counts: dict[str, Any]) -> list[int]:
    return [count for name, count in counts.items() if "silently" in name or "other error" in name]


def make_saved(folder: Path) -> None:
    """Saves a fitted index of a few memories."""
    index = PredictiveAssociativeIndex(dim=DIM)
    fill(index)
    index.save(folder)


def fill(index: PredictiveAssociativeIndex) -> None:
    vectors = np.random.default_rng(5).standard_normal((MEMORIES, DIM))
    ids = [f"m{n}" for n in range(MEMORIES)]
    index.add(vectors, ids, [f"text {id}" for id in ids], [{"n": n, "tag": ["a", "é"]} for n in range(MEMORIES)])
    index._store.set_embedder("none")
    index.fit([ids[:6], ids[6:]], window=2, config=FitConfig(hidden=8, passes=3), progress=False)


def make_killed(folder: Path, settled: bool) -> None:
    """Creates the index of a killed writer: without a checksum, and with all of the data in the journal or none."""
    child = os.fork()
    if not child:
        index = PredictiveAssociativeIndex.open(folder, dim=DIM)
        fill(index)
        if settled:
            database = index._store.database
            assert isinstance(database, SQLiteDatabase)
            database.connection.settle()
        os._exit(0)
    os.waitpid(child, 0)
    (folder / "writer.lock").unlink()
    assert settled != any(path.name.endswith("-wal") and path.stat().st_size for path in folder.iterdir())


def fingerprint(folder: Path) -> Any:
    """Returns all answers of an index."""
    index = PredictiveAssociativeIndex.load(folder)
    try:
        if not index.is_fitted or not len(index):  # the fit was acknowledged, so its absence is a loss
            return None
        records = sorted((r.id, r.vector.tobytes(), r.text, str(r.metadata)) for r in index.find())
        hits = [
            [(h.id, round(h.score, 5), h.text, str(h.metadata), h.evidence) for h in found]
            for found in (index.search("m1", k=99), index.recall("m1", k=99, explain=True, mode="hybrid"))
        ]
        proven = [sorted(h.id for h in index.recall(f"m{n}", k=99, faithful=True)) for n in range(MEMORIES)]
        return records, hits, proven, index.embedder_name
    finally:
        index.close()


def outcome(folder: Path, expected: Any) -> str:
    """Returns the outcome of a change of one file, as text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a warning of NaN in a computation is a finding
            return "harmless" if fingerprint(folder) == expected else "answers differ silently"
    except PAMError as error:
        return f"detected: {type(error).__name__}"
    except Exception as error:  # noqa: BLE001 - any other error is a finding
        return f"other error: {type(error).__name__}: {error}"[:120]


def damage_each_byte(folder: Path, limit: int | None, random: np.random.Generator) -> dict[str, Any]:
    expected, counts = fingerprint(folder), Counter[str]()
    for path in sorted(folder.iterdir()):
        contents = path.read_bytes()
        positions = range(len(contents)) if limit is None else random.integers(len(contents), size=limit).tolist()
        for position in tqdm(positions, desc=path.name, disable=None):
            _change(path, contents, position, random)
            counts[f"{path.suffix[1:]}: {outcome(folder, expected)}"] += 1
        path.write_bytes(contents)
        counts["bytes of " + path.suffix[1:]] = len(contents)
    return dict(counts)


def damage_length(folder: Path, times: int, random: np.random.Generator) -> dict[str, Any]:
    expected, counts = fingerprint(folder), Counter[str]()
    paths = sorted(folder.iterdir())
    for _ in tqdm(range(times), disable=None):
        path = paths[random.integers(len(paths))]
        contents = path.read_bytes()
        grown = contents + random.bytes(random.integers(1, 5000))
        path.write_bytes(contents[: random.integers(len(contents))] if random.random() < 0.7 else grown)
        counts[outcome(folder, expected)] += 1
        path.write_bytes(contents)
    return dict(counts)


def damage_at_random(folder: Path, times: int, random: np.random.Generator) -> dict[str, Any]:
    """Damages a new copy each time, because reading a journal may rewrite the index."""
    expected, counts = fingerprint(folder), Counter[str]()
    files = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}
    sizes = np.array([len(contents) for contents in files.values()])
    names = list(files)
    copy = folder.with_name("copy")
    for _ in tqdm(range(times), disable=None):
        copy.mkdir()
        name = names[random.choice(len(names), p=sizes / sizes.sum())]
        for other, contents in files.items():
            (copy / other).write_bytes(contents)
        _change(copy / name, files[name], int(random.integers(len(files[name]))), random)
        kind = "journal" if name.endswith("-wal") else name.split(".")[-1]
        counts[f"{kind}: {outcome(copy, expected)}"] += 1
        shutil.rmtree(copy)
    return dict(counts)


def check_at_random(folder: Path, times: int, random: np.random.Generator) -> dict[str, Any]:
    """Returns whether ``check`` reports the damage for which ``load`` rejects a folder."""
    expected, counts = fingerprint(folder), Counter[str]()
    paths = sorted(folder.iterdir())
    for _ in tqdm(range(times), disable=None):
        path = paths[random.integers(len(paths))]
        contents = path.read_bytes()
        _change(path, contents, int(random.integers(len(contents))), random)
        try:
            found = bool(check(folder))
        except PAMError:
            found = True
        refused = outcome(folder, expected).startswith("detected")
        counts["check agrees with load" if found == refused else "check silently disagrees with load"] += 1
        path.write_bytes(contents)
    return dict(counts)


def _change(path: Path, contents: bytes, position: int, random: np.random.Generator) -> None:
    changed = bytearray(contents)
    changed[position] ^= int(random.integers(1, 256))
    path.write_bytes(changed)


if __name__ == "__main__":
    main()
