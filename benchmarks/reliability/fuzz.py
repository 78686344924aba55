"""Coverage-guided fuzzing with atheris (``pip install atheris``).

python -m benchmarks.reliability.fuzz filter --seconds 1800
python -m benchmarks.reliability.fuzz manifest --seconds 1800
python -m benchmarks.reliability.fuzz jsonl --seconds 1800
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import report
from pam_retriever.filters import COMBINERS, OPERATORS
from pam_retriever.store.folder.manifest import new_manifest

TIMEOUT, MEMORY = 10, 2048  # seconds per input, MB of the process
EVENT = {"vector": [1, 2.5], "session": "a", "time": 1, "id": "x", "text": "word"}
SAVED = {**new_manifest(3, "exact"), "database_sha256": "0" * 64}
SEEDS = {
    "filter": [
        '\x00{"year": {"$gte": 2020, "$lt": 2024}}',
        '\x00{"$or": [{"a": {"$in": [1, "x"]}}, {"$not": {"a": null}}]}',
    ],
    "manifest": [json.dumps(new_manifest(3, "faiss")), json.dumps(SAVED)],
    "jsonl": [json.dumps(EVENT) + "\n" + json.dumps({**EVENT, "id": None}), '{"text": "é", "session": 1}\n\n'],
}
WORDS = ['"', "{", "}", "[", "]", ":", ",", "null", "true", "1e999", "-0", "\\u0000", "\\ud800", "..", "/", *EVENT]


def run(target: str, seconds: int, seed: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Fuzzes a target in a separate process, from valid inputs; writes failures to ``folder`` as ``found-*``."""
    corpus = folder / f"corpus-{target}"
    corpus.mkdir()
    for at, valid in enumerate(SEEDS[target]):
        (corpus / f"seed{at}").write_text(valid)
    words = [*WORDS, *OPERATORS, *COMBINERS, *new_manifest(1, "faiss")]
    (folder / "words").write_text("".join(f'"{_escaped(word)}"\n' for word in words))
    command = [sys.executable, "-m", "benchmarks.reliability.fuzz_targets", target, str(corpus)]
    command += [f"-max_total_time={seconds}", f"-timeout={TIMEOUT}", f"-rss_limit_mb={MEMORY}", f"-seed={seed}"]
    command += [f"-dict={folder / 'words'}", f"-artifact_prefix={folder}/found-", "-print_final_stats=1"]
    return subprocess.run([*command, "-max_len=4096"], capture_output=True, text=True, errors="replace")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("target", choices=list(SEEDS))
    parser.add_argument("--seconds", type=int, default=1800)
    parser.add_argument("--seed", type=int, default=1)
    parsed = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        started = time.monotonic()
        done = run(parsed.target, parsed.seconds, parsed.seed, folder)
        found = [path.name for path in folder.glob("found-*")]
        log = done.stdout + done.stderr
        covered = re.findall(r"cov: (\d+)", log)
        statistics = {name: int(number) for name, number in re.findall(r"stat::(\w+):\s+(\d+)", log)}
        print(log[-3000:])
        for path in folder.glob("found-*"):
            print(path.name, path.read_bytes()[:500])
        report.write(
            f"reliability/fuzz-{parsed.target}",
            {
                "target": parsed.target,
                "seconds": round(time.monotonic() - started, 1),
                "inputs": statistics.get("number_of_executed_units"),
                "peak_memory_mb": statistics.get("peak_rss_mb"),
                "slowest_input_s": statistics.get("slowest_unit_time_sec"),
                "coverage_points": int(covered[-1]) if covered else None,
                "crashes_hangs_or_excess_memory": len(found),
                "exit_status": done.returncode,
                "limits": {"seconds_an_input": TIMEOUT, "memory_mb": MEMORY},
            },
        )
    sys.exit(done.returncode)


def _escaped(word: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else f"\\x{ord(c):02x}" for c in word)


if __name__ == "__main__":
    main()
