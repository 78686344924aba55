"""``python -m benchmarks.performance.peers``: this library relative to other stores, in one run, in turns.

Every store has its own process. The stores take turns with the same piece of work: a batch of rows, a row, a query.
Other stores need packages that this project does not use: install ``benchmarks/peers.txt`` in a separate environment,
and pass its interpreter as ``--python``. FAISS and FAISS through LangChain work in memory, and write a file at the end.
The others work on disk; ``durable`` states how.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

from benchmarks import report
from benchmarks.performance.peer_compressed import COMPRESSED
from benchmarks.performance.peer_data import KINDS, QUERIES, Shape, World
from benchmarks.performance.peer_stores import STORES

ROOT = Path(__file__).parents[2]
OURS = next(iter(STORES))
SINGLE_THREAD = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS", "LANCE_CPU_THREADS", "OPENBLAS_NUM_THREADS")
Taken = dict[str, Any]


class Process:
    """A store in another process.

    Args:
        name: name of the store.
        python: the interpreter where the store is installed.
        folder: folder of the store's files.
        more: other arguments of ``peer_worker``.
        threads: number of threads per library, where it can be set.
    """

    def __init__(self, name: str, python: str, folder: Path, more: list[str], threads: int) -> None:
        folder.mkdir(exist_ok=True)
        module = "benchmarks.performance.peer_worker"
        self._name, paths = name, [str(ROOT), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [python, "-m", module, name, str(folder), *more],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": ":".join(paths), **dict.fromkeys(SINGLE_THREAD, str(threads))},
        )
        self.about = self._answer()

    def __call__(self, do: str, **arguments: object) -> Taken:
        """Sends a command, and waits for the result."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Taken:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"{self._name} ended with {self._process.wait()}; see above.")
        answer: Taken = json.loads(line)
        return answer

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def in_turns(processes: dict[str, Process], jobs: list[dict[str, Any]]) -> dict[str, list[Taken]]:
    """Runs each job in every store. The store that is first changes from job to job."""
    taken: dict[str, list[Taken]] = {name: [] for name in processes}
    names = list(processes)
    for number, job in enumerate(jobs):
        for at in range(len(names)):
            name = names[(at + number) % len(names)]
            taken[name].append(processes[name](**job))
    return taken


def measure(processes: dict[str, Process], arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Returns every figure of every store, except the time of reopening."""
    count, singles, size = arguments.count, arguments.singles, arguments.batch
    found: dict[str, dict[str, Any]] = {name: dict(one.about) for name, one in processes.items()}
    in_turns(processes, [{"do": "open", "first": -1}])
    batches = [{"do": "add", "start": at, "end": min(at + size, count)} for at in range(0, count, size)]
    added = in_turns(processes, batches)
    for name, taken in added.items():
        for clock in ("clock", "processor"):
            found[name][f"add, rows a second of the {clock}"] = count / sum(one[clock] for one in taken)
    ones = [{"do": "add", "start": count + at, "end": count + at + 1} for at in range(singles)]
    note(found, "add one", in_turns(processes, ones))
    settled = in_turns(processes, [{"do": "settle"}])
    note(found, "settle", settled)
    for name, taken in settled.items():
        for clock in ("clock", "processor"):
            seconds = sum(one[clock] for one in added[name] + taken)
            found[name][f"add and settle, rows a second of the {clock}"] = count / seconds
    for kind in KINDS:
        in_turns(processes, [{"do": "search", "kind": kind, "at": QUERIES - 1}])  # warm-up
        questions = [{"do": "search", "kind": kind, "at": at} for at in range(arguments.questions)]
        note(found, f"search, {kind}", in_turns(processes, questions))
    note(found, "batch", in_turns(processes, [{"do": "batch", "size": arguments.queries}] * 3))
    for name, taken in in_turns(processes, [{"do": "close"}]).items():
        found[name]["disk"] = taken[0]["disk"]
        found[name]["memory at most"] = taken[0]["peak_memory"] - found[name]["memory_before"]
        found[name]["memory at the end, without files"] = taken[0]["held_memory"] - found[name].pop("held_before")
    return found


def note(found: dict[str, dict[str, Any]], what: str, taken: dict[str, list[Taken]]) -> None:
    """Returns medians in milliseconds, and the mean recall if there is one."""
    for name, runs in taken.items():
        found[name][what] = {clock: 1e3 * median(one[clock] for one in runs) for clock in ("clock", "processor")}
        if "recall" in runs[0]:
            found[name][what]["recall@10"] = sum(one["recall"] for one in runs) / len(runs)


def ratios(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Returns the ratios of this library to another; below 1 this library is better."""
    ours, others = found[OURS], {name: one for name, one in found.items() if name != OURS}
    rows: dict[str, dict[str, float]] = {}
    for name, theirs in others.items():
        row = {}
        for what, value in ours.items():
            if what in ("settle", "memory_before"):
                continue
            if isinstance(value, dict):
                row[what] = value["clock"] / max(theirs[what]["clock"], 1e-6)
            elif "a second" in what:
                row[what] = theirs[what] / value
            else:
                row[what] = value / max(theirs[what], 1)
        rows[name] = row
    return rows


def table(stores: dict[str, dict[str, Any]]) -> str:
    """Returns the table of the page: processor time, memory and disk of the others relative to this library.

    ``finds`` is the share of the exact answers that a store finds, where it is not all of them.
    """
    ours, others = stores[OURS], {name: one for name, one in stores.items() if name != OURS}
    lines = [f"| | {' | '.join(others)} |", "|---" * (len(others) + 1) + "|"]
    for what, value in ours.items():
        if what in ("settle", "memory_before", "durable") or what.endswith("of the clock"):
            continue
        cells = [f"{what.removesuffix(', rows a second of the processor')}{finds(value)}"]
        for theirs in others.values():
            if isinstance(value, dict):
                times = theirs[what]["processor"] / value["processor"]
            else:
                times = value / theirs[what] if "a second" in what else theirs[what] / max(value, 1)
            cells.append(f"{times:.2g}{finds(theirs[what])}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def finds(measured: Any) -> str:
    """Returns a remark on the recall of a store, if it is not 1."""
    recall = measured.get("recall@10", 1.0) if isinstance(measured, dict) else 1.0
    return "" if recall >= 0.995 else f" (finds {recall:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="a Python interpreter with the other stores installed")
    parser.add_argument(
        "--stores", nargs="+", choices=[*STORES][1:], default=[*STORES][1:], help="stores to compare with this library"
    )
    parser.add_argument("--count", type=int, default=50_000, help="number of rows, for example 1000000")
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument(
        "--topics", type=int, default=0, help="centres of a mixture of Gaussians (default: no structure)"
    )
    parser.add_argument(
        "--compressed", action="store_true", help="use the index that each store recommends for a million rows"
    )
    parser.add_argument("--batch", type=int, default=5_000, help="rows per call")
    parser.add_argument("--singles", type=int, default=50, help="number of rows to add one by one")
    parser.add_argument("--questions", type=int, default=100, help="number of single queries of each kind")
    parser.add_argument("--queries", type=int, default=1_000, help="number of queries in one batch call")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="folder on the disk to measure (default: a temporary one)")
    parser.add_argument("--name", default="performance/peers")
    arguments = parser.parse_args()
    shape = Shape(
        arguments.count + arguments.singles, arguments.dim, arguments.seed, arguments.topics, arguments.questions
    )
    stores = COMPRESSED if arguments.compressed else STORES
    names = [OURS, *arguments.stores]
    pythons = {name: sys.executable if name == OURS else arguments.python for name in names}

    with tempfile.TemporaryDirectory(dir=arguments.folder) as root:
        folders = {name: Path(root) / str(at) for at, name in enumerate(names)}
        World.draw(Path(root) / "world", shape)
        more = [f"{root}/world", *["--compressed"] * arguments.compressed]

        def start(name: str) -> Process:
            return Process(name, pythons[name], folders[name], more, arguments.threads)

        processes = {name: start(name) for name in names}
        found = measure(processes, arguments)
        for one in processes.values():
            one.__exit__(None, None, None)
        for name in names:
            started, opened = [], []
            for at in range(3):
                with start(name) as process:
                    started.append(process("open", first=at))
                    process("close")
                    opened.append(process("open", first=at))
            note(found, "start, with imports, and a first question", {name: started})
            note(found, "reopen, and a first question", {name: opened})
    result: dict[str, Any] = {
        "count": arguments.count,
        "dim": arguments.dim,
        "topics": arguments.topics,
        "compressed": arguments.compressed,
        "threads": arguments.threads,
        "stores": {name: {**found[name], "durable": stores[name].durable} for name in names},
        "this library takes, in times of": ratios(found),
    }
    print(table(result["stores"]))
    print(f"written to {report.write(arguments.name, result)}")


if __name__ == "__main__":
    main()
