"""``python -m benchmarks.real.sequence``: next-article prediction by a sequence model, against a Markov chain.

SASRec (Kang and McAuley, ICDM 2018) in the implementation of RecTools: ``pip install "rectools[torch]>=0.19"
"pandas<3"``, which no other part of this project needs. It reads the whole walk so far; the other methods read the last
three articles. Data and steps are those of ``benchmarks.real.wikispeedia``; ``--part tuning`` does not use the test
walks.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.real.recommenders import Markov
from benchmarks.real.wikispeedia import (
    DEPTH,
    WINDOW,
    Rows,
    Walk,
    draw_steps,
    experience_of,
    find_folder,
    judge_next,
    next_article,
    read,
    split,
)

LONGEST = 20  # articles of a walk that the model reads
NEGATIVES, CALIBRATION = 256, 0.75  # of the loss: gSASRec (Petrov and Macdonald, RecSys 2023)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the data (default: found in PAM_DATA_DIR)")
    parser.add_argument("--part", choices=("reported", "tuning"), default="reported")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--factors", type=int, default=128)
    parser.add_argument("--seed", type=int, default=0, help="seed of the steps and of the training")
    parser.add_argument("--name", default="real/sequence")
    arguments = parser.parse_args()
    titles, walks = read(find_folder(arguments.folder))
    training, test = split(walks)
    if arguments.part == "tuning":
        training, test = split(training)
    steps = draw_steps(test, arguments.seed)
    started = time.perf_counter()
    model, data = fit(training, arguments.epochs, arguments.factors, arguments.seed)
    seconds = time.perf_counter() - started
    markov = Markov()
    markov.fit(experience_of(training), np.zeros((len(titles), 1), np.float32), WINDOW)
    columns = {
        "SASRec": judge_next(steps, ranked(model, data, steps)),
        "Markov": next_article(test, markov.scores, arguments.seed),
    }
    print(report.table(["HR@20", "MRR@20"], columns, digits=3))
    settings = {"epochs": arguments.epochs, "factors": arguments.factors, "longest": LONGEST}
    result = {"seed": arguments.seed, "part": arguments.part, "sasrec": settings, "fit_seconds": seconds}
    print(f"\nwritten to {report.write(arguments.name, result | {'next_article': columns})}")


def fit(walks: list[Walk], epochs: int, factors: int, seed: int) -> tuple[Any, Any]:
    """Returns SASRec trained on the walks, and its data set; other settings are the defaults of RecTools."""
    try:
        from pytorch_lightning import Trainer, seed_everything
        from rectools.models import SASRecModel
    except ImportError as error:
        sys.exit(f"{error}.\n{__doc__}")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    seed_everything(seed)
    data = interactions([walk.articles for walk in walks if len(walk.articles) > 1])

    def trainer() -> Any:
        return Trainer(max_epochs=epochs, logger=False, enable_checkpointing=False, accelerator="auto", devices=1)

    loss = {"loss": "gBCE", "n_negatives": NEGATIVES, "gbce_t": CALIBRATION}
    model = SASRecModel(session_max_len=LONGEST, n_factors=factors, epochs=epochs, get_trainer_func=trainer, **loss)
    return model.fit(data), data


def interactions(walks: list[tuple[int, ...]]) -> Any:
    """Returns the walks in the form for RecTools: one row per step."""
    import pandas as pd
    from rectools import Columns
    from rectools.dataset import Dataset

    lengths = [len(walk) for walk in walks]
    count = sum(lengths)
    frame = pd.DataFrame(
        {
            Columns.User: np.repeat(np.arange(len(walks)), lengths),
            Columns.Item: np.concatenate(walks),
            Columns.Weight: 1.0,
            Columns.Datetime: pd.Timestamp(2000, 1, 1) + pd.to_timedelta(np.arange(count), unit="s"),
        }
    )
    return Dataset.construct(frame)


def ranked(model: Any, data: Any, steps: list[tuple[Walk, int]]) -> list[Rows]:
    """Returns the best articles after each walk so far, best first, without the current one."""
    from rectools import Columns

    known = set(data.item_id_map.external_ids.tolist())
    so_far = [tuple(article for article in walk.articles[:at] if article in known) for walk, at in steps]
    asked = [number for number, articles in enumerate(so_far) if articles]
    found = model.recommend(
        users=np.arange(len(asked)),
        dataset=interactions([so_far[number] for number in asked]),
        k=DEPTH + 1,
        filter_viewed=False,
        on_unsupported_targets="ignore",  # walks without a prediction get no answer, which counts as a miss
    )
    best: list[Rows] = [np.empty(0, np.int64) for _ in steps]
    for user, items in found.groupby(Columns.User)[Columns.Item]:
        walk, at = steps[asked[user]]
        rows = items.to_numpy(np.int64)
        best[asked[user]] = rows[rows != walk.articles[at - 1]][:DEPTH]
    return best


if __name__ == "__main__":
    main()
