"""``python -m benchmarks.architecture NAME``, or ``all``; results go to ``benchmarks/results/architecture``."""

from __future__ import annotations

import argparse
import importlib
import time

from benchmarks import report

NAMES = ("bridging", "familiarity", "salience", "decay", "streaming", "specificity", "imagination", "thresholds")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.architecture", description=__doc__)
    parser.add_argument("name", choices=[*NAMES, "all"])
    parser.add_argument("--seed", type=int, default=42, help="of the world that is reported; 7 is the one tuned on")
    arguments = parser.parse_args()
    for name in NAMES if arguments.name == "all" else [arguments.name]:
        started = time.perf_counter()
        result = importlib.import_module(f"benchmarks.architecture.{name}").run(arguments.seed)
        for title, columns in result["tables"].items():
            rows = list(dict.fromkeys(row for column in columns.values() for row in column))
            print(f"\n{name}: {title}\n{report.table(rows, columns, digits=3)}")
        seconds = round(time.perf_counter() - started, 1)
        suffix = "" if arguments.seed == 42 else f"-seed{arguments.seed}"
        print(report.write(f"architecture/{name}{suffix}", {"seed": arguments.seed, "seconds": seconds, **result}))


if __name__ == "__main__":
    main()
