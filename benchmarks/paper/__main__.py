"""``python -m benchmarks.paper table1 --config fast``."""

from __future__ import annotations

import argparse

from benchmarks.paper import table1

EXPERIMENTS = {"table1": table1}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    experiments = parser.add_subparsers(dest="experiment", required=True)
    for name, module in EXPERIMENTS.items():
        module.add_arguments(experiments.add_parser(name, help=(module.__doc__ or "").splitlines()[0]))
    arguments = parser.parse_args()
    EXPERIMENTS[arguments.experiment].run(arguments)


if __name__ == "__main__":
    main()
