"""Processes that open and write the tenants of one folder at the same moment, some of them killed at random moments.

    python -m benchmarks.reliability.shared_kills --kills 300

Three writers open the folder again and again, write to one of three tenants that they share, and close it; a reader
opens it, with ``follow`` or without, and asks. Only one writer at a time may have the folder, so the others wait, or
get ``IndexLocked``. No other error may occur, in any process. At the end each tenant must contain every memory whose
``add`` returned, with its text, and no other memory except those of calls that a kill interrupted.
"""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from tqdm import tqdm

from benchmarks.reliability.kills import campaign
from pam_retriever import IndexLocked, InvalidInput, PredictiveAssociativeIndex
from pam_retriever.store.folder.repair import check

DIM, WRITERS, TENANTS = 8, 3, ("ann", "bob", "cid")
LONGEST = 1.2  # seconds until the kill
WAITED = 0.05  # seconds that half of the opens wait for another writer
Log = Callable[[str], object]


def main() -> None:
    campaign(__doc__, run, "reliability/shared_kills")


def run(kills: int, seed: int, folder: Path) -> tuple[dict[str, int], list[str]]:
    """Kills one process after the other, and starts a new one in its place; returns counts and failures."""
    random = np.random.default_rng(seed)
    path, logs = folder / "index", folder / "logs"
    logs.mkdir()
    works = [write] * WRITERS + [read]
    children = [_start(work, path, logs / f"{at}", seed + at) for at, work in enumerate(works)]
    for kill in tqdm(range(kills), disable=None):
        at = int(random.integers(len(works)))
        time.sleep(float(random.uniform(0, LONGEST)) / len(works))
        _kill(children[at])
        number = len(works) + kill
        children[at] = _start(works[at], path, logs / f"{number}", seed + number)
    for child in children:
        _kill(child)
    return _judge(path, logs)


def write(path: Path, random: np.random.Generator, log: Log) -> None:
    """Opens the folder, and adds a memory to a shared tenant, without end."""
    for number in range(1_000_000):
        tenant, id = str(random.choice(TENANTS)), f"{os.getpid()}-{number}"
        try:
            with PredictiveAssociativeIndex.open(path, DIM, lock_timeout=WAITED * float(random.integers(2))) as index:
                tenant_index = index.tenant(tenant)
                log(f"begun {tenant} {id}")
                if number % 4:
                    tenant_index.add(random.standard_normal((1, DIM)), [id], [f"text of {id}"])
                else:
                    tenant_index.append("shared", random.standard_normal(DIM), f"text of {id}", id=id)
                log(f"done {tenant} {id}")
                if not number % 3:
                    index.drop_tenant(f"spare {os.getpid()}")
                    index.tenant(f"spare {os.getpid()}").add(random.standard_normal((1, DIM)))
        except IndexLocked:
            log("locked")


def read(path: Path, random: np.random.Generator, log: Log) -> None:
    """Opens the folder for reading, and asks a tenant, without end."""
    while not (path / "manifest.json").exists():
        time.sleep(0.01)
    while True:
        with PredictiveAssociativeIndex.open(path, read_only=True, follow=bool(random.integers(2))) as index:
            for tenant in TENANTS:
                try:
                    tenant_index = index.tenant(tenant)
                except InvalidInput:  # nobody has made it
                    continue
                for hit in tenant_index.search(random.standard_normal(DIM), 3):
                    assert hit.text == f"text of {hit.id}", hit
                log("asked")


def _start(work: Callable[[Path, np.random.Generator, Log], None], path: Path, log: Path, seed: int) -> int:
    """Runs some work in a process of its own; returns its number."""
    child = os.fork()
    if child:
        return child
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        work(path, np.random.default_rng(seed), lambda line: os.write(written, f"{line}\n".encode()))
    except BaseException:  # noqa: BLE001 - a child must not run on as its parent
        os.write(written, f"error {traceback.format_exc()!r}\n".encode())
    finally:
        os._exit(1)


def _kill(child: int) -> None:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _judge(path: Path, logs: Path) -> tuple[dict[str, int], list[str]]:
    """Compares the tenants with what the processes were told."""
    lines = [line for log in sorted(logs.iterdir()) for line in log.read_text().splitlines()]
    begun, done = ({tuple(line.split()[1:]) for line in lines if line.startswith(word)} for word in ("begun ", "done "))
    counts = Counter(line.split()[0] for line in lines)
    failures = [line for line in lines if line.startswith("error")]
    failures += check(path)
    with PredictiveAssociativeIndex.open(path) as index:
        found = [(tenant, one) for tenant in TENANTS for one in index.tenant(tenant).find({}, len(begun) + 1)]
    stored = {(tenant, one.id) for tenant, one in found}
    wrong = [one.id for _, one in found if one.text != f"text of {one.id}"]
    failures += [f"lost: {one}" for one in sorted(done - stored)] + [f"never added: {one}" for one in stored - begun]
    failures += [f"another text: {id}" for id in wrong]
    counts["interrupted: there"] = len(stored & (begun - done))
    return dict(counts), failures


if __name__ == "__main__":
    main()
