"""``python -m benchmarks.gpu --minutes 25``: measurements that were not run on a GPU, the most valuable first.

The run stops after ``--minutes``. Finished parts are stored, and the next run skips them: raw JSON is in ``--results``,
trained models are in ``--cache``. ``--tiny`` takes seconds on a CPU.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType

from benchmarks import report
from benchmarks.gpu.jobs import JOBS, Plan
from benchmarks.paper.setting import CACHE, Setting

SEEDS = (42, 123, 456)


class TimeUp(Exception):
    """The time limit of the run is reached."""


def _stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal calls it
    raise TimeUp


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--device", default="cuda")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=list(JOBS),
        default=list(JOBS),
        metavar="JOB",
        help=f"jobs to run: {', '.join(JOBS)}",
    )
    parser.add_argument("--tiny", action="store_true", help="test run: a world of 400 states, one pass per training")
    parser.add_argument("--results", type=Path, default=report.RESULTS / "gpu", help="folder of raw results")
    parser.add_argument("--cache", type=Path, default=CACHE / "gpu", help="folder of trained models")
    arguments = parser.parse_args()
    setting = Setting(seeds=SEEDS, device=arguments.device, results=arguments.results, cache=arguments.cache)
    plan = Plan.tiny(setting) if arguments.tiny else Plan(setting)
    take_baselines(setting)
    seconds: dict[str, float] = {}
    running, ended = "", "everything was done"
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, max(60 * arguments.minutes, 1e-3))
    try:
        for running in arguments.only:
            began = time.perf_counter()
            print(f"\n{running}", flush=True)
            JOBS[running](plan)
            seconds[running] = round(time.perf_counter() - began, 1)
    except TimeUp:
        ended = f"the minutes were over in: {running}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    path = arguments.results / "run.json"
    before = json.loads(path.read_text())["runs"] if path.exists() else []
    done = {"minutes": arguments.minutes, "tiny": arguments.tiny, "seconds": seconds, "ended": ended}
    print(f"\n{ended}\nwritten to {report.write('run', {'runs': [*before, done]}, arguments.results)}")


def take_baselines(setting: Setting) -> None:
    """Copies the baselines that were already measured: they train on a CPU, so the device changes nothing."""
    name = replace(setting, protocol="both", config="baselines").parts("measured").name
    there, wanted = report.RESULTS / f"{name}.json", setting.results / f"{name}.json"
    if there.exists() and not wanted.exists():
        wanted.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(there, wanted)


if __name__ == "__main__":
    main()
