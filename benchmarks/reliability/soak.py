"""An agent's load for any duration: three tenants, four threads, a reader process, kills, fits and deletions.

    python -m benchmarks.reliability.soak --minutes 30

A writer process has a folder with three tenants. Each of its threads appends turns to its own sessions in a random
tenant, gives feedback, sends queries, fits, and deletes its oldest sessions, so that the folder does not grow. It logs
the start and the end of each call. A reader process follows all tenants, and sends queries meanwhile. The
writer is killed (kill -9) at random moments. After each kill every tenant must contain every acknowledged call, the
calls in flight completely or not at all, and nothing else; ``check`` must find no fault. At the end no file may contain
the text of a deleted turn. The writer's memory, the size of the folder and its number of files are recorded at each
kill, to test whether they stay level.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks import report
from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.store.folder.repair import check

LONGEST_START = 120  # seconds
DIM, THREADS = 32, 4
TENANTS = ("ann", "bob", "cyd")
WORDS = ("stairs", "cellar", "ointment", "drill", "pliers", "train", "coast", "library", "garden", "letter")
TURNS, SESSIONS = 12, 8  # turns per session; sessions per thread and tenant, before the oldest is deleted
CONFIG = FitConfig(hidden=16, passes=2)
KINDS = ("append",) * 10 + ("recall",) * 6 + ("feedback", "feedback", "fit")
OFTEN_ENOUGH = 0.03  # share of the drawn fits that run: a fit takes as long as many appends
Call = dict[str, Any]
MARK = re.compile(rb"said-[a-z0-9-]{1,40}-end")  # the last word of every text, unique to it
Owner = tuple[str, int]  # tenant and thread
Turns = dict[str, str]  # text by id


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--between",
        type=float,
        nargs=2,
        default=(5, 30),
        help="shortest and longest time between two kills, in seconds (default: 5 30)",
    )
    parser.add_argument("--work", choices=("write", "read"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--life", type=int, default=0, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.work == "write":
        write(parsed.folder, parsed.seed, parsed.life)
    elif parsed.work == "read":
        read(parsed.folder, parsed.seed)
    else:
        folder = tempfile.mkdtemp(prefix="pam-soak-")
        result = run(Path(folder), parsed.minutes, parsed.seed, tuple(parsed.between))
        if result["failures"]:
            print(f"What was found lies in {folder}.")
        else:
            shutil.rmtree(folder)
        print(json.dumps({**result, "level": result["level"][-3:]}, indent=1))
        print(report.write("reliability/soak", {"seed": parsed.seed, "minutes": parsed.minutes, **result}))
        sys.exit(bool(result["failures"]))


def run(folder: Path, minutes: float, seed: int, between: tuple[float, float]) -> dict[str, Any]:
    """Runs the load for ``minutes``; returns counts, faults, and sizes at each kill."""
    random = np.random.default_rng(seed)
    index = folder / "index"
    with PredictiveAssociativeIndex.open(index, dim=DIM) as made:
        for name in TENANTS:
            made.tenant(name)
    held: dict[Owner, Turns] = defaultdict(dict)
    counts: Counter[str] = Counter()
    failures: list[str] = []
    level: list[dict[str, float]] = []
    until, life = time.monotonic() + 60 * minutes, 0
    reader = _start("read", folder, seed, 0)
    while time.monotonic() < until and not failures:
        writer = _start("write", folder, seed, life)
        _wait_for_work(writer, folder / f"log{life}")
        time.sleep(float(random.uniform(*between)))
        if writer.poll() is None:
            memory = psutil.Process(writer.pid).memory_info().rss
            os.kill(writer.pid, signal.SIGKILL)
        else:
            memory = 0
            failures.append(f"life {life}: the writer ended by itself ({writer.returncode})")
        writer.wait()
        in_flight, raised = _follow(folder / f"log{life}", held, counts)
        failures += [f"life {life}: {one}" for one in raised]
        failures += [f"life {life}: {one}" for one in _compare(index, held, in_flight)]
        files = [path for path in index.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        level.append({"writer_mb": round(memory / 2**20, 1), "folder_mb": round(size / 2**20, 2), "files": len(files)})
        life += 1
    counts["kills"] = life
    if reader.poll() is not None:
        failures.append(f"the reader ended by itself ({reader.returncode})")
    reader.terminate()
    reader.wait()
    reports = [json.loads(line) for line in (folder / "reader").read_text().splitlines()]
    counts["questions of the reader"] = sum(one.get("asked", 0) for one in reports)
    failures += [f"reader: {one['error']}" for one in reports if "error" in one]
    failures += _erased_bytes(index, held)
    counts["memories at the end"] = sum(map(len, held.values()))
    return {"counts": dict(counts), "failures": failures, "level": level}


def _wait_for_work(writer: subprocess.Popen[bytes], log: Path) -> None:
    """Waits for the first call of a writer, because on a busy machine its imports take longer than a life."""
    latest = time.monotonic() + LONGEST_START
    while writer.poll() is None and not (log.exists() and log.stat().st_size) and time.monotonic() < latest:
        time.sleep(0.05)


def _start(work: str, folder: Path, seed: int, life: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.reliability.soak", "--work", work]
    return subprocess.Popen([*command, "--folder", str(folder), "--seed", str(seed), "--life", str(life)])


# ---- the work of the other processes


def write(folder: Path, seed: int, life: int) -> None:
    """Runs four threads until the process is killed."""
    log, mutex = (folder / f"log{life}").open("a", buffering=1), threading.Lock()

    def note(event: str, thread: int, call: Call | None = None) -> None:
        with mutex:
            log.write(json.dumps({"event": event, "thread": thread, "call": call}) + "\n")

    with PredictiveAssociativeIndex.open(folder / "index", lock_timeout=30) as index:
        tenants = {name: index.tenant(name) for name in TENANTS}

        def work(thread: int) -> None:
            try:
                for call in calls(tenants, np.random.default_rng((seed, life, thread)), f"{thread}-{life}-", thread):
                    note("begin", thread, call)
                    make(tenants[call["tenant"]], call)
                    note("done", thread)
            except BaseException as error:  # noqa: BLE001 - the parent reads it
                note("error " + "".join(traceback.format_exception(error)), thread)
                os._exit(1)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()


def calls(
    tenants: dict[str, PredictiveAssociativeIndex], random: np.random.Generator, prefix: str, thread: int
) -> Iterator[Call]:
    """Runs the calls of a thread in sequence; they also use data that earlier processes stored for the thread."""
    sessions = {name: _sessions(index, thread) for name, index in tenants.items()}
    number = 0
    while True:
        number += 1
        name, kind = str(random.choice(TENANTS)), str(random.choice(KINDS))
        mine = sessions[name]
        if len(mine) > SESSIONS:
            gone = next(iter(mine))
            yield {"kind": "erase", "tenant": name, "ids": mine.pop(gone)}
        elif kind == "append" or not mine:
            session = next(reversed(mine), None)
            if session is None or len(mine[session]) >= TURNS:
                mine[session := f"{prefix}{number}"] = []
            id = f"{session}/{len(mine[session])}"
            mine[session].append(id)
            text = f"{' '.join(random.choice(WORDS, 4))} said-{name}-{prefix}{number}-end"
            yield {"kind": "append", "tenant": name, "session": session, "id": id, "text": text, "thread": thread}
        elif kind == "fit" and random.random() > OFTEN_ENOUGH:
            continue
        else:
            ids = mine[next(reversed(mine))][-2:]
            yield {"kind": kind, "tenant": name, "text": " ".join(random.choice(WORDS, 3)), "ids": ids}


def _sessions(index: PredictiveAssociativeIndex, thread: int) -> dict[str, list[str]]:
    """Returns the sessions of a thread from earlier processes, the oldest first, with the ids of their turns."""
    found: dict[str, list[str]] = defaultdict(list)
    for record in index.find({"thread": thread}):
        found[record.id.rsplit("/", 1)[0]].append(record.id)
    return dict(sorted(found.items(), key=lambda one: [int(part) for part in one[0].split("-")[1:]]))


def make(index: PredictiveAssociativeIndex, call: Call) -> None:
    """Runs one call of an agent."""
    if call["kind"] == "append":
        index.append(
            call["session"], vector_of(call["text"]), call["text"], call["id"], metadata={"thread": call["thread"]}
        )
    elif call["kind"] == "erase":
        index.erase(call["ids"])
    elif call["kind"] == "fit":
        index.fit(window=2, config=CONFIG, progress=False)
    elif call["kind"] == "feedback":
        index.feedback(vector_of(call["text"]), call["ids"][:1], text=call["text"])
    else:
        hits = index.recall(vector_of(call["text"]), k=10, text=call["text"])
        assert hits and all(f"said-{call['tenant']}-" in (hit.text or "") for hit in hits), "of another tenant"


def read(folder: Path, seed: int) -> None:
    """Follows all tenants and sends queries until the process ends."""
    random = np.random.default_rng((seed, 99))
    with (folder / "reader").open("a", buffering=1) as log:
        try:
            with PredictiveAssociativeIndex.open(folder / "index", read_only=True, follow=True) as index:
                tenants = {name: index.tenant(name) for name in TENANTS}
                while True:
                    for _ in range(20):
                        name, text = str(random.choice(TENANTS)), " ".join(random.choice(WORDS, 3))
                        for hit in tenants[name].recall(vector_of(text), k=10, text=text, explain=True):
                            assert f"said-{name}-" in (hit.text or ""), f"{name} got {hit}"
                    log.write('{"asked": 20}\n')
                    time.sleep(0.05)
        except Exception as error:  # the parent process reads it
            log.write(json.dumps({"error": repr(error)}) + "\n")
            raise


def vector_of(text: str) -> np.ndarray:
    """Returns a vector from the words: texts with common words are similar."""
    positions = [WORDS.index(word) if word in WORDS else sum(map(ord, word)) % 997 for word in text.split()]
    return np.sum([np.random.default_rng(position).standard_normal(DIM) for position in positions], axis=0)


# ---- the expected contents of the folder


def _follow(log: Path, held: dict[Owner, Turns], counts: Counter[str]) -> tuple[list[tuple[Owner, Call]], list[str]]:
    """Applies acknowledged calls; returns the interrupted calls, and the errors."""
    begun: dict[int, Call] = {}
    raised = []
    for line in log.read_text().splitlines() if log.exists() else ():
        if not line.endswith("}"):  # the kill cut the line
            continue
        one = json.loads(line)
        if one["event"] == "begin":
            begun[one["thread"]] = one["call"]
        elif one["event"] == "done":
            call = begun.pop(one["thread"])
            counts[call["kind"]] += 1
            apply(held[call["tenant"], one["thread"]], call)
        else:
            raised.append(f"{one['event']} in {begun.get(one['thread'])}")
    return [((call["tenant"], thread), call) for thread, call in begun.items()], raised


def apply(turns: Turns, call: Call) -> None:
    """Returns the turns of a thread in its tenant after a call."""
    if call["kind"] == "append":
        turns[call["id"]] = call["text"]
    elif call["kind"] == "erase":
        for id in call["ids"]:
            turns.pop(id, None)


def _compare(index: Path, held: dict[Owner, Turns], in_flight: list[tuple[Owner, Call]]) -> Iterable[str]:
    """Returns the faults; interrupted calls that are stored count as acknowledged."""
    yield from check(index)
    with PredictiveAssociativeIndex.open(index) as opened:  # opening replays the journal of the killed writer
        for name in TENANTS:
            found: dict[Owner, Turns] = defaultdict(dict)
            for record in opened.tenant(name).find():
                found[name, record.metadata["thread"]][record.id] = record.text or ""
            for thread in range(THREADS):
                owner = name, thread
                after = dict(held[owner])
                for whose, call in in_flight:
                    if whose == owner:
                        apply(after, call)
                if found[owner] == after:
                    held[owner] = after
                elif found[owner] != held[owner]:
                    yield f"{owner}: {sorted(found[owner].items() ^ held[owner].items())[:3]}"


def _erased_bytes(index: Path, held: dict[Owner, Turns]) -> Iterable[str]:
    """Returns files with a deleted text, after everything is closed and no reader needs an older state."""
    with PredictiveAssociativeIndex.open(index) as opened:
        for name in TENANTS:
            opened.tenant(name)
    remaining = {text.split()[-1].encode() for turns in held.values() for text in turns.values()}
    for path in index.rglob("*"):
        there = set(MARK.findall(path.read_bytes())) if path.is_file() else set()
        if there - remaining:
            yield f"{path.name} holds erased texts: {sorted(there - remaining)[:3]}"


if __name__ == "__main__":
    main()
