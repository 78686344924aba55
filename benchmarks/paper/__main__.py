"""``python -m benchmarks.paper all``, or one experiment; prints results next to the paper's, writes raw JSON."""

from __future__ import annotations

import argparse
import time

from tqdm.auto import tqdm

from benchmarks import report
from benchmarks.paper import EXPERIMENTS, figures, page, setting


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    experiments = parser.add_subparsers(dest="experiment", required=True)
    setting.add_arguments(experiments.add_parser("all", help="run every experiment that has no result yet"))
    setting.add_arguments(
        experiments.add_parser("page", help="draw the figures and write the page of notes from the existing results")
    )
    for name, module in EXPERIMENTS.items():
        about = (module.__doc__ or "").splitlines()[0].replace("%", "%%")  # argparse formats the help text
        setting.add_arguments(experiments.add_parser(name, help=about))
    arguments = parser.parse_args()
    if arguments.experiment == "page":
        _publish(setting.settings(arguments)[-1])
        return
    chosen = EXPERIMENTS if arguments.experiment == "all" else {arguments.experiment: EXPERIMENTS[arguments.experiment]}
    todo = [(name, one) for name in chosen for one in setting.settings(arguments)]
    with tqdm(todo, desc="experiments", disable=None if len(todo) > 2 else True) as bar:
        for name, one in bar:
            bar.set_postfix_str(f"{name}, {one.protocol}")
            started = time.perf_counter()
            for table in chosen[name].run(one):
                print(f"\n[{name}, protocol {one.protocol}, recipe {one.recipe}] {table.text()}", flush=True)
            print(f"({time.perf_counter() - started:.0f} s)", flush=True)
    if arguments.experiment == "all" and one.published_world and one.results == report.RESULTS:
        _publish(one)


def _publish(one: setting.Setting) -> None:
    """Draws the figures and updates the page from the existing results."""
    for missing in figures.draw(one):
        print(f"not drawn, {missing}")
    page.fill(one)
    print(f"figures in {figures.IMAGES}, tables in {page.PAGE}")


if __name__ == "__main__":
    main()
