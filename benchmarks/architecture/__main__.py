"""``python -m benchmarks.architecture NAME``, or ``all``; results go to ``benchmarks/results/architecture``."""

from __future__ import annotations

import argparse
import importlib
import time

from benchmarks import report

NAMES = (
    "bridging",
    "familiarity",
    "salience",
    "decay",
    "streaming",
    "specificity",
    "imagination",
    "thresholds",
    "switched_on",
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.architecture", description=__doc__)
    parser.add_argument("name", choices=[*NAMES, "all"])
    parser.add_argument(
        "--seed", type=int, default=42, help="seed of the world; results are reported for 42, settings were chosen on 7"
    )
    arguments = parser.parse_args()
    for name in NAMES if arguments.name == "all" else [arguments.name]:
        started = time.perf_counter()
        result = importlib.import_module(f"benchmarks.architecture.{name}").run(arguments.seed)
        for title, methods in result["tables"].items():
            print(f"\n**{title}**\n\n{markdown(methods)}", flush=True)
        seconds = round(time.perf_counter() - started, 1)
        suffix = "" if arguments.seed == 42 else f"-seed{arguments.seed}"
        print(report.write(f"architecture/{name}{suffix}", {"seed": arguments.seed, "seconds": seconds, **result}))


def markdown(methods: dict[str, dict[str, float]]) -> str:
    """Returns the table of the docs, one line per method."""
    columns = list(dict.fromkeys(name for found in methods.values() for name in found))
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, found in methods.items():
        cells = ["" if column not in found else cell(found[column]) for column in columns]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cell(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3f}"


if __name__ == "__main__":
    main()
