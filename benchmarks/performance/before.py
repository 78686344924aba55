"""``python -m benchmarks.performance.before OLD NEW``: the cost of a call in one checkout relative to another.

Each checkout has its own process with the same memories. The two processes take turns in short rounds, and alternate
who is first. A ratio compares the processor time of two neighbouring rounds; the table has the median of the ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from benchmarks import report

WORKER = Path(__file__).with_name("before_worker.py")
Round = dict[str, float]


class Checkout:
    """A process that runs a checkout.

    Args:
        folder: the checkout.
        about: number of memories, length of the vectors, seed.
    """

    def __init__(self, folder: Path, about: tuple[int, int, int]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER), *map(str, about)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(folder.resolve()), "OMP_NUM_THREADS": "1"},
        )
        git = ["git", "-C", str(folder), "rev-parse", "--short=10", "HEAD"]
        self.commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
        self.cases: list[str] = self._answer()

    def __call__(self, case: str, start: int, calls: int) -> Round:
        """Runs some calls of a case, and waits for the result."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([case, start, calls]) + "\n")
        self._process.stdin.flush()
        answer: Round = self._answer()
        return answer

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"A worker ended with {self._process.wait()}; see above.")
        return json.loads(line)

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("old", type=Path, help="a checkout, for example one made by `git worktree add`")
    parser.add_argument("new", type=Path, help="another checkout, to compare with OLD")
    parser.add_argument("--memories", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=100, help="rounds for each kind of call")
    parser.add_argument("--calls", type=int, default=11, help="calls per round; a tenth of it for batch calls")
    parser.add_argument("--only", nargs="*", help="measure only these kinds of calls")
    parser.add_argument("--name", default="performance/before")
    arguments = parser.parse_args()

    about = arguments.memories, arguments.dim, arguments.seed
    both = [Checkout(folder, about) for folder in (arguments.old, arguments.new)]
    result: dict[str, Any] = {"old": both[0].commit, "new": both[1].commit, "about": about, "load": os.getloadavg()}
    for case in arguments.only or both[1].cases:
        calls = max(1, arguments.calls // 10) if "0" in case else arguments.calls
        rounds = in_turns(both, case, arguments.rounds, calls)
        result[case] = figures = compared(rounds)
        low, high = figures["quartiles"]
        milliseconds = " ".join(f"{figures[which]['processor_ms']:8.3f}" for which in ("old", "new"))
        print(f"{case:30} {milliseconds} ms   {figures['ratio']:.2f} x ({low:.2f} to {high:.2f})", flush=True)
    for one in both:
        one.close()
    print(f"written to {report.write(arguments.name, result)}")


def in_turns(both: list[Checkout], case: str, rounds: int, calls: int) -> list[list[Round]]:
    """Returns the rounds of both checkouts, without the first round, which is warm-up."""
    taken: list[list[Round]] = [[], []]
    for number in range(rounds + 1):
        for which in (0, 1) if number % 2 else (1, 0):
            answer = both[which](case, number * calls, calls)
            if number:
                taken[which].append(answer)
    return taken


def compared(rounds: list[list[Round]]) -> dict[str, Any]:
    """Returns the median time of each checkout, and the median ratio of neighbouring rounds."""
    ratios = [new["processor"] / old["processor"] for old, new in zip(*rounds, strict=True)]
    low, _, high = quantiles(ratios, n=4)
    figures: dict[str, Any] = {"ratio": median(ratios), "quartiles": [low, high]}
    for name, its in zip(("old", "new"), rounds, strict=True):
        figures[name] = {f"{clock}_ms": 1e3 * median(one[clock] for one in its) for clock in ("processor", "clock")}
    return figures


if __name__ == "__main__":
    main()
