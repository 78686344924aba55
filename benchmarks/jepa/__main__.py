"""``python -m benchmarks.jepa all``: every experiment of benchmarks/notes/jepa.md, one result file each.

An experiment with a result file is skipped unless ``--again`` is given, so an interrupted run continues. LoCoMo needs
its data file, see ``benchmarks.real.locomo``. Settings were chosen on the world of seed 7, results are reported on 42.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from benchmarks import report
from benchmarks.jepa.association import association
from benchmarks.jepa.collapse import collapse
from benchmarks.jepa.locomo import turns_as_states
from benchmarks.jepa.prediction import imagination, prediction
from benchmarks.jepa.senses import ablation, missing
from benchmarks.jepa.setup import JOINT, Setup
from benchmarks.jepa.specificity import specificity
from benchmarks.jepa.surprise import surprise

EXPERIMENTS = {
    "association": association,
    "specificity": specificity,
    "prediction": prediction,
    "imagination": imagination,
    "surprise": surprise,
    "collapse": collapse,
    "missing": missing,
    "ablation": ablation,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiments", nargs="+", choices=["all", *EXPERIMENTS, "locomo"])
    parser.add_argument("--seed", type=int, default=42, help="seed of the world; 7 was used for tuning")
    parser.add_argument("--passes", type=int, default=JOINT.passes)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--models", type=Path, default=Path("benchmarks/models"), help="folder of trained models")
    parser.add_argument("--locomo", type=Path, help="path of locomo10.json (default: found in PAM_DATA_DIR)")
    parser.add_argument(
        "--embeddings", type=Path, help="an .npz file that caches the embeddings of LoCoMo between runs"
    )
    parser.add_argument("--again", action="store_true", help="also run experiments that have a result")
    parser.add_argument("--results", type=Path, default=report.RESULTS)
    arguments = parser.parse_args()
    chosen = [*EXPERIMENTS, "locomo"] if "all" in arguments.experiments else arguments.experiments
    setup = Setup(arguments.seed, arguments.passes, device=arguments.device, models=arguments.models)
    for name in chosen:
        file = arguments.results / "jepa" / f"{name}.json"
        if file.exists() and not arguments.again and json.loads(file.read_text())["seed"] == arguments.seed:
            print(f"{name}: done before, {file}")
            continue
        started = time.perf_counter()
        if name == "locomo":
            result = turns_as_states(arguments.locomo, arguments.passes, arguments.device, arguments.embeddings)
        else:
            result = EXPERIMENTS[name](setup)
        tables = result["columns"]
        result["seconds"] = time.perf_counter() - started
        print(f"\n{name}, {result['seconds']:.0f} s")
        nested = isinstance(next(iter(next(iter(tables.values())).values())), dict)
        for title, columns in tables.items() if nested else [("", tables)]:
            print(f"{title}\n{transposed(result['rows'], columns)}")
        result = {"seed": arguments.seed, "passes": arguments.passes, **result}
        report.write(f"jepa/{name}", result, arguments.results)


def transposed(rows: list[str], columns: dict[str, dict[str, float]]) -> str:
    """Returns one line per way, one column per measure."""
    return report.table(list(columns), {row: {name: c.get(row) for name, c in columns.items()} for row in rows}, 3)


if __name__ == "__main__":
    main()
