"""kill -9 at random moments of a PAMStore that writes; every reopened store is compared with the model.

    python -m benchmarks.reliability.langgraph_kills [--kills 100] [--seed 0]

A forked writer puts and deletes items of several tenants in batches, and reports the start and end of each batch. After
the kill, the store must contain every batch that returned, the batch in flight completely or not at all, and nothing
else. Each index must agree with its items: each vector has a memory, a search by the vector finds the item, and each
item is a step of its namespace.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from langgraph.store.base import PutOp

from benchmarks.reliability.langgraph_store import DIM, FIELDS, Generator, embed
from benchmarks.report import write
from langgraph_pam import PAMStore

INDEX: Any = {"dims": DIM, "embed": embed, "fields": FIELDS, "mode": "similarity"}
LIVES = 20  # kills per folder
LONGEST = 0.6  # seconds until the kill
Model = dict[tuple[tuple[str, ...], str], dict[str, Any]]


def batch(seed: int, number: int) -> list[PutOp]:
    """Returns the items of one call: 1 to 12."""
    made = Generator(1_000_003 * seed + number)
    puts = [made.put()._replace(ttl=None, index=None) for _ in range(made.choice([1, 1, 2, 5, 12]))]
    if made.chance(0.2):  # many items of one namespace are stored together
        where = made.namespace()
        puts = [made.put()._replace(namespace=where, key=str(at), ttl=None, index=None) for at in range(12)]
    return [put._replace(value=None) if made.chance(0.25) else put for put in puts]


def apply(model: Model, puts: list[PutOp]) -> Model:
    """Returns the items after a batch, by namespace and key."""
    after = dict(model)
    for put in {(put.namespace, put.key): put for put in puts}.values():
        after.pop((put.namespace, put.key), None)
        if put.value is not None:
            after[put.namespace, put.key] = dict(put.value)
    return after


def serve(folder: Path, seed: int, first: int, pipe: int) -> None:
    """Runs the writer until it is killed."""
    store = PAMStore(folder, index=INDEX)
    os.write(pipe, b"o\n")
    number = first
    while True:
        os.write(pipe, b"b\n")
        store.batch(batch(seed, number))
        os.write(pipe, b"d\n")
        number += 1


def run_and_kill(folder: Path, seed: int, first: int, seconds: float) -> tuple[int, bool, bool]:
    """Runs and kills a writer; returns its count of finished batches, if one was in flight, and if the store opened."""
    read, pipe = os.pipe()
    child = os.fork()
    if not child:
        try:
            serve(folder, seed, first, pipe)
        finally:
            os._exit(1)
    os.close(pipe)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as said:
        lines = said.read().split()
    return lines.count(b"d"), lines[-1:] == [b"b"], bool(lines)


def differences(folder: Path, models: list[Model]) -> list[str]:
    """Returns the faults of a reopened store, whose state must equal one of the models."""
    with PAMStore(folder, index=INDEX) as store:
        items = store.search((), limit=10**6)
        held = {(item.namespace, item.key): item.value for item in items}
        if held not in models:
            return [f"items: {sorted(held)} are not {sorted(models[0])}"]
        found = [f"{item.namespace} {item.key}: {wrong}" for item in items if (wrong := misplaced(store, item))]
        for tenant in sorted({item.namespace[0] for item in items}):
            vectors = sum(len(texts(item.value)) for item in items if item.namespace[0] == tenant)
            index = store.tenant(tenant)
            steps = Counter(id for one in index.trajectories() for id in one.ids)
            firsts = {record.id for record in index.find() if "/" not in record.id}
            if len(index) != vectors or set(steps) != firsts or set(steps.values()) - {1}:
                found.append(f"{tenant}: {len(index)} memories, not {vectors}; steps {steps}, not {firsts}")
        return found


def texts(value: dict[str, Any]) -> list[str]:
    """Returns the texts of a value that have a vector."""
    return [*([value["text"]] if "text" in value else []), *value.get("tags", [])]


def misplaced(store: PAMStore, item: Any) -> str | None:
    """Returns the reason if a search for the item's texts does not find it."""
    for text in texts(item.value):
        scores = {(one.namespace, one.key): one.score for one in store.search(item.namespace, query=text, limit=10**4)}
        score = scores.get((item.namespace, item.key))
        if score is None or score < 1 - 1e-4:
            return f"{text!r} scores {score}"
    return None


def run(kills: int, seed: int, folder: Path) -> tuple[dict[str, int], list[str]]:
    """Kills a writer ``kills`` times; returns the counts, and every difference from the model."""
    random, counts, failures = np.random.default_rng(seed), Counter[str](), list[str]()
    home, model, number = folder / "0", Model(), 0
    for kill in range(kills):
        if kill % LIVES == 0:
            home, model, number = folder / str(kill), Model(), 0
        returned, in_flight, opened = run_and_kill(
            home, seed + kill // LIVES, number, float(random.uniform(0.02, LONGEST))
        )
        for _ in range(returned):
            model, number = apply(model, batch(seed + kill // LIVES, number)), number + 1
        models = [model]
        if in_flight:
            models.append(apply(model, batch(seed + kill // LIVES, number)))
        wrong = differences(home, models)
        failures += [f"kill {kill}: {one}" for one in wrong]
        with PAMStore(home, index=INDEX) as store:
            held = {(item.namespace, item.key): item.value for item in store.search((), limit=10**6)}
        if in_flight and held == models[-1]:  # the batch was stored, or changed nothing
            model, number = models[-1], number + 1
            counts["kills: the batch in flight is there"] += 1
        counts["kills"] += 1
        counts["kills within a batch"] += in_flight
        counts["kills while it opened"] += not opened
        counts["batches that returned"] += returned
        if wrong:
            home, model, number = folder / f"after {kill}", Model(), 0
    return dict(counts), failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        counts, failures = run(arguments.kills, arguments.seed, Path(folder))
    print(counts, failures, sep="\n")
    write("reliability/langgraph_kills", {"seed": arguments.seed, "counts": counts, "failures": failures})
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
