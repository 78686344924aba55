"""``python -m benchmarks.real.sequence --model GRU4Rec``: the next article, by networks that read the whole walk.

SASRec (Kang and McAuley, ICDM 2018) in the implementation of RecTools: ``pip install "rectools[torch]>=0.19"
"pandas<3"``, which no other part of this project needs. Its loss is the cross-entropy over all items (Klenitskiy and
Vasilev, RecSys 2023), or with ``--set loss=gBCE`` that of gSASRec (Petrov and Macdonald, RecSys 2023).
GRU4Rec is in ``benchmarks.baselines.gru``; queries and experience are the same as in ``benchmarks.real.next``.

``--part tuning`` splits the experience once more, does not use the test walks, and prints the figures after each pass,
on 1,000 steps. The number of passes is chosen by this MRR@20. ``--checkpoint`` is the folder of checkpoints.
``--minutes`` limits the processor time of a run, which then prints the number of passes left.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from benchmarks import report
from benchmarks.baselines.gru import GRU4Rec
from benchmarks.real.next import Steps, by_sessions, lists, questions
from benchmarks.real.wikispeedia import (
    DEPTH,
    HIDDEN_SHARE,
    Rows,
    Walk,
    draw_steps,
    evaluate_next,
    find_folder,
    hide,
    read,
    split,
)

TUNED_ON = 1_000
NEGATIVES, CALIBRATION = 256, 0.75  # of the loss gBCE


class Network(Protocol):
    """A model that is trained pass by pass."""

    done: int

    def start(self, walks: list[tuple[int, ...]], items: int) -> None: ...
    def one_pass(self) -> float: ...
    def ranked(self, steps: Steps) -> list[Rows]: ...
    def save(self, path: Path) -> None: ...
    def load(self, path: Path) -> None: ...


class Recurrent(GRU4Rec):
    """GRU4Rec as a ``Network``."""

    def ranked(self, steps: Steps) -> list[Rows]:
        """Returns the best articles after each walk so far, best first, without the current one."""
        return by_sessions(self, steps)


@dataclass
class SASRec:
    """SASRec, by RecTools; other settings are its defaults.

    Args:
        factors: size of the embeddings.
        rate: learning rate of Adam.
        longest: largest number of last articles in the input.
        loss: "softmax" over all items, or "gBCE" with sampled items.
        dropout: share of the activations that training sets to zero.
        seed: seed of weights, dropout and order.
    """

    factors: int = 128
    rate: float = 1e-3
    longest: int = 20
    loss: str = "softmax"
    dropout: float = 0.2
    seed: int = 0
    done: int = field(default=0, init=False)

    def start(self, walks: list[tuple[int, ...]], items: int) -> None:  # noqa: ARG002
        """Reads the walks."""
        try:
            from pytorch_lightning import seed_everything
            from rectools.models import SASRecModel
        except ImportError as error:
            sys.exit(f"{error}.\n{__doc__}")
        logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", module="pytorch_lightning")
        seed_everything(self.seed)
        self._data = interactions(walks)
        self._model = SASRecModel(
            session_max_len=self.longest,
            n_factors=self.factors,
            lr=self.rate,
            dropout_rate=self.dropout,
            loss=self.loss,
            n_negatives=NEGATIVES,
            gbce_t=CALIBRATION,
            epochs=1_000,
        )

    def one_pass(self) -> float:
        """Reads all walks once."""
        self._model.fit_partial(self._data, min_epochs=1, max_epochs=1)
        self.done += 1
        return 0.0

    def save(self, path: Path) -> None:
        """Writes a checkpoint."""
        self._model.save(path)
        path.with_suffix(".passes").write_text(str(self.done))

    def load(self, path: Path) -> None:
        """Continues from a checkpoint, after ``start``."""
        from pytorch_lightning import seed_everything
        from rectools.models import SASRecModel

        self._model, self.done = SASRecModel.load(path), int(path.with_suffix(".passes").read_text())
        seed_everything(self.seed + self.done)

    def ranked(self, steps: Steps) -> list[Rows]:
        """Returns the best articles after each walk so far, best first, without the current one."""
        from rectools import Columns

        items = set(self._data.item_id_map.external_ids.tolist())
        so_far = [tuple(article for article in walk.articles[:at] if article in items) for walk, at in steps]
        users = [number for number, articles in enumerate(so_far) if articles]
        found = self._model.recommend(
            users=np.arange(len(users)),
            dataset=interactions([so_far[number] for number in users]),
            k=DEPTH + 1,
            filter_viewed=False,
            on_unsupported_targets="ignore",  # a walk without a prediction counts as a miss
        )
        best: list[Rows] = [np.empty(0, np.int64) for _ in steps]
        for user, items in found.groupby(Columns.User)[Columns.Item]:
            walk, at = steps[users[user]]
            rows = items.to_numpy(np.int64)
            best[users[user]] = rows[rows != walk.articles[at - 1]][:DEPTH]
        return best


def interactions(walks: list[tuple[int, ...]]) -> Any:
    """Returns the walks as RecTools input, one row per step."""
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


def read_setting(value: str) -> float | str:
    """Reads a setting: an integer, a float, or a name."""
    for kind in (int, float):
        with suppress(ValueError):
            return kind(value)
    return value


MODELS: dict[str, Callable[..., Network]] = {"SASRec": SASRec, "GRU4Rec": Recurrent}


def trained(
    network: Network, walks: list[Walk], items: int, given: argparse.Namespace, name: str, after: Callable[[], None]
) -> bool:
    """Trains until all passes are done or the time is up; returns whether all passes are done."""
    network.start(lists(walks), items)
    path = None if given.checkpoint is None else given.checkpoint / f"{given.model}-{given.part}-{name}.pt"
    if path is not None and path.exists():
        network.load(path)
    while network.done < given.epochs:
        if given.minutes is not None and time.process_time() > 60 * given.minutes:
            return False
        network.one_pass()
        if path is not None:
            network.save(path)
        after()
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the data (default: found in PAM_DATA_DIR)")
    parser.add_argument("--model", choices=sorted(MODELS), default="SASRec")
    parser.add_argument("--part", choices=("reported", "tuning"), default="reported")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--set", nargs="*", default=[], help="settings of the model: name=value")
    parser.add_argument("--seed", type=int, default=0, help="seed of the steps and of the training")
    parser.add_argument("--checkpoint", type=Path, help="folder where training continues")
    parser.add_argument("--minutes", type=float, help="processor time after which this run ends")
    parser.add_argument("--name", help="default: real/sequence-MODEL")
    given = parser.parse_args()
    titles, walks = read(find_folder(given.folder))
    training, test = split(walks)
    if given.part == "tuning":
        training, test = split(training)
    settings = {name: read_setting(value) for name, value in (setting.split("=") for setting in given.set)}
    hidden = set(np.random.default_rng(given.seed).permutation(len(titles))[: int(HIDDEN_SHARE * len(titles))].tolist())
    parts = {"all": (training, {"all": draw_steps(test, given.seed)})}
    if given.part == "reported":
        parts["hidden"] = hide(training, hidden), questions(test, hidden, given.seed)
    table: dict[str, dict[str, float]] = {}
    curve: list[dict[str, float]] = []
    for name, (experienced, rows) in parts.items():
        network = MODELS[given.model](seed=given.seed, **settings)

        def after(network: Network = network, rows: dict[str, Steps] = rows) -> None:
            if given.part == "tuning":
                curve.append(evaluate_next(rows["all"][:TUNED_ON], network.ranked(rows["all"][:TUNED_ON])))
                print(network.done, curve[-1], f"{time.process_time():.0f} s", flush=True)

        if not trained(network, experienced, len(titles), given, name, after):
            print(f"{name}: {network.done} of {given.epochs} passes; run again")
            return
        table |= {row: evaluate_next(steps, network.ranked(steps)) for row, steps in rows.items()}
    print(report.table(["HR@20", "MRR@20"], table, digits=3))
    about = {"model": given.model, "part": given.part, "seed": given.seed, "epochs": given.epochs, "settings": settings}
    name = given.name or f"real/sequence-{given.model.lower()}"
    print(f"\nwritten to {report.write(name, about | ({'curve': curve} if curve else {}) | {'next': table})}")


if __name__ == "__main__":
    main()
