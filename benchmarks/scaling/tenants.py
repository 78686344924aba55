"""Many small tenants of one index: the cost of a query, against one index with all their memories.

    python -m benchmarks.scaling.tenants --tenants 100000 --made 1000
    python -m benchmarks.scaling.tenants --tenants 3 --memories 1000000 --backend faiss:ivf,sq8

There are four kinds of access: tenants in random order, so that almost every query opens its tenant and closes an older
one; the same with ten queries each; few tenants; and the index of all memories. Each has its own process, so that
memory is measured separately. A query is a noisy vector of a memory, with its words or without. Files are in the cache
of the system, as after the load.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks import report
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.store.folder.tenant_names import folder_of
from pam_retriever.types import Float32

FEW, SESSION, AT_ONCE, NOISE = 50, 10, 10_000, 0.1
QUERIES_OF_ONE = 200  # fewer queries to the index of all memories, because each searches all of them
WORDS = ("kettle", "boat", "harbour", "gull", "storm", "net", "tea", "wall")
KINDS = {
    "every": "tenants in random order",
    "sessions": f"tenants in random order, {SESSION} questions each",
    "few": f"{FEW} tenants, asked in turn",
    "one": "one index of all",
}


def vectors_of(tenant: int, memories: int, dim: int) -> Float32:
    """Returns the vectors of a tenant, (memories, dim)."""
    return np.random.default_rng((27, tenant)).standard_normal((memories, dim), dtype=np.float32)


def text_of(tenant: int, memory: int) -> str:
    return f"{WORDS[memory % 8]} {WORDS[memory // 8 % 8]} {tenant} {memory}"


def fill(index: PredictiveAssociativeIndex, tenant: int, parsed: argparse.Namespace) -> None:
    """Adds the memories of a tenant, in sessions of ten."""
    vectors = vectors_of(tenant, parsed.memories, parsed.dim)
    for start in range(0, parsed.memories, AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, parsed.memories))
        ids = [f"m{number}" for number in numbers]
        index.add(vectors[start : start + AT_ONCE], ids, [text_of(tenant, number) for number in numbers])
        index.observe_many([ids[at : at + SESSION] for at in range(0, len(ids), SESSION)])


def fill_one(index: PredictiveAssociativeIndex, parsed: argparse.Namespace) -> None:
    """Adds the memories of all tenants to one index, in the same sessions."""
    many = max(1, AT_ONCE // parsed.memories)
    for first in tqdm(range(0, parsed.tenants, many), disable=None):
        tenants = range(first, min(first + many, parsed.tenants))
        for start in range(0, parsed.memories, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, parsed.memories))
            ids = [f"{tenant}-m{number}" for tenant in tenants for number in numbers]
            vectors = [vectors_of(tenant % parsed.made, parsed.memories, parsed.dim)[numbers] for tenant in tenants]
            texts = [text_of(tenant % parsed.made, number) for tenant in tenants for number in numbers]
            index.add(np.concatenate(vectors), ids, texts)
            index.observe_many([ids[at : at + SESSION] for at in range(0, len(ids), SESSION)])


def copy_tenants(folder: Path, parsed: argparse.Namespace) -> None:
    """Copies the folders of the existing tenants until there are enough: each is its own index."""
    (inside,) = folder.glob("tenants-*")
    for tenant in tqdm(range(parsed.made, parsed.tenants), disable=None):
        shutil.copytree(inside / folder_of(f"t{tenant % parsed.made}"), inside / folder_of(f"t{tenant}"))


def build(folder: Path, parsed: argparse.Namespace) -> dict[str, Any]:
    """Builds the index with its tenants, and the one with all memories; returns their costs."""
    found: dict[str, Any] = {}
    for name in ("tenants",) if parsed.alone else ("tenants", "one"):
        if (folder / name).exists():
            continue
        wall, cpu = time.perf_counter(), time.process_time()
        with PredictiveAssociativeIndex.open(folder / name, parsed.dim, backend=parsed.backend) as index:
            if name == "one":
                fill_one(index, parsed)
            else:
                for tenant in tqdm(range(parsed.made), disable=None):
                    fill(index.tenant(f"t{tenant}"), tenant, parsed)
        found[f"{name}: seconds to build"] = round(time.perf_counter() - wall, 1)
        found[f"{name}: processor seconds to build"] = round(time.process_time() - cpu, 1)
        if name == "tenants":
            copy_tenants(folder / name, parsed)
    for inside in folder.iterdir():
        found[f"{inside.name}: bytes on disk"] = sum(path.stat().st_size for path in inside.rglob("*"))
    return found


def ask(folder: Path, kind: str, parsed: argparse.Namespace) -> dict[str, Any]:
    """Returns milliseconds per query, and resident memory after all of them, in this process."""
    random = np.random.default_rng(parsed.seed)
    before = _resident()
    with PredictiveAssociativeIndex.open(folder / ("one" if kind == "one" else "tenants")) as index:
        ready, started = _resident(), time.perf_counter()
        measured: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
        tenant = 0
        for number in range(-2 * FEW, parsed.questions):
            if kind == "few":
                tenant = number % min(FEW, parsed.tenants)
            elif kind != "sessions" or not number % SESSION:
                tenant = int(random.integers(parsed.tenants))
            memory, words = int(random.integers(parsed.memories)), bool(number // FEW % 2)
            query = vectors_of(tenant % parsed.made, memory + 1, parsed.dim)[memory]
            query = query + NOISE * random.standard_normal(parsed.dim, dtype=np.float32)
            text = text_of(tenant % parsed.made, memory)
            wall, cpu = time.perf_counter(), time.process_time()
            part = index if kind == "one" else index.tenant(f"t{tenant}")
            hits = part.recall(query, k=5, text=text if words else None)
            if number >= 0:  # the first queries load parts of Python, or open the few tenants
                measured[words].append((time.perf_counter() - wall, time.process_time() - cpu))
            if hits[0].text != text:
                raise SystemExit(f"{text!r} was not found")
        result: dict[str, Any] = {"seconds": round(time.perf_counter() - started, 1)}
        for words, times in measured.items():
            wall_ms, cpu_ms = 1e3 * np.array(times).T
            result["with words" if words else "by vector"] = {
                "p50 ms": round(float(np.median(wall_ms)), 3),
                "p99 ms": round(float(np.quantile(wall_ms, 0.99)), 3),
                "p50 processor ms": round(float(np.median(cpu_ms)), 3),
                "questions": len(times),
            }
        return {**result, "bytes, opened": ready - before, "bytes, after all questions": _resident() - before}


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tenants", type=int, default=10_000)
    parser.add_argument(
        "--made", type=int, help="number of tenants that are filled by calls; the others are copies of these"
    )
    parser.add_argument("--memories", type=int, default=50, help="memories per tenant")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--questions", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--backend", default="faiss:flat")
    parser.add_argument("--alone", action="store_true", help="skip the index of all memories")
    parser.add_argument(
        "--keep", type=Path, help="folder in which the indexes are stored, or from which existing ones are opened"
    )
    parser.add_argument("--ask", choices=KINDS, help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.questions < 2 * FEW:
        parser.error(
            f"Got --questions {parsed.questions}. Expected at least {2 * FEW}: {FEW} by vector, {FEW} with words."
        )
    parsed.made = min(parsed.made or parsed.tenants, parsed.tenants)
    if parsed.ask:
        print(json.dumps(ask(parsed.keep, parsed.ask, parsed)))
        return
    with tempfile.TemporaryDirectory() as made:
        folder = parsed.keep or Path(made)
        result: dict[str, Any] = {**vars(parsed), "keep": None, "built": build(folder, parsed), "measured": {}}
        del result["ask"], result["keep"]
        options = [f"--{key}={result[key]}" for key in ("tenants", "made", "memories", "dim", "questions", "seed")]
        for kind, name in KINDS.items():
            if kind == "one" and parsed.alone:
                continue
            command = [sys.executable, "-m", "benchmarks.scaling.tenants", f"--keep={folder}", f"--ask={kind}"]
            if kind == "one":
                options[-2] = f"--questions={min(parsed.questions, QUERIES_OF_ONE)}"
            done = subprocess.run([*command, *options], stdout=subprocess.PIPE, text=True, check=True)
            result["measured"][name] = json.loads(done.stdout.splitlines()[-1])
            print(name, result["measured"][name], flush=True)
    print(report.write(f"scaling/tenants_{parsed.tenants}x{parsed.memories}", result))


if __name__ == "__main__":
    main()
