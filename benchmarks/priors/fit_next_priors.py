"""``python -m benchmarks.priors.fit_next_priors``: default weights of ``recall_next`` for little experience.

The data are three parts of each data set, and the whole set. Each asks what comes next at its end. There is one prior
for walks and one for records (repositories), each fitted on all questions of its data sets. ``fit`` later chooses the
sum of both that fits its own questions; before a fit, the mean of both is used. No weight is bounded or set by hand.
Memories that followed here rank before similar ones, even after few observations: before a fit, these weights decide
only what the observations leave open (``sequences.mixture``). The files of a commit happened at once, so the number of
the commit is their time.

The test parts are not used: Wikispeedia contributes the first 80 % of its walks, a repository of ``data/use`` its
``experience``. Writes ``pam_retriever/retrieval/sequences/priors.json``. ``--without`` leaves data sets out, to measure
on them.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.real import commits, data, wikispeedia
from pam_retriever.ann.exact import ExactBackend
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.retrieval.mixture import logit
from pam_retriever.retrieval.mixture.fitting import sample
from pam_retriever.retrieval.mixture.holdout import join
from pam_retriever.retrieval.mixture.logit import Choices
from pam_retriever.retrieval.sequences.features import FEATURES
from pam_retriever.retrieval.sequences.fitting import Experienced, Held, held_out, with_never
from pam_retriever.retrieval.sequences.mixture import KINDS, PRIORS

STRETCHES, STEPS = 3, 2_000  # parts per data set, and steps per part
RIDGE, START = 1e-2, np.zeros(len(FEATURES))
REPOSITORIES = ("code-brian2", "code-flask", "code-requests")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="with wikispeedia and use; else PAM_DATA_DIR")
    parser.add_argument("--model", help="a sentence-transformers model (all-MiniLM-L6-v2)")
    parser.add_argument("--without", nargs="*", default=[], help="data sets to leave out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--to", type=Path, default=PRIORS)
    arguments = parser.parse_args()
    root = data.find(arguments.folder, (".",), __doc__ or "")
    embedder = data.load_embedder(arguments.model)
    found: dict[str, list[Held]] = {"walks": [], "records": []}
    used = []
    for name in ("wikispeedia", *REPOSITORIES):
        if name in arguments.without:
            continue
        if name == "wikispeedia":
            texts, walks = wikispeedia.read(root / name)
            texts = [text.replace("_", " ") for text in texts]
            experience = [np.array(walk.articles) for walk in wikispeedia.split(walks)[0] if len(walk.articles) > 1]
            times = None
        else:
            repository = commits.read(root / "use" / name)
            texts = repository.texts
            seen = repository.commits[: len(repository.commits) - repository.tests]
            experience, times = [np.concatenate(seen)], commits.commit_of(seen)
        vectors = embedder.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        similar = ExactBackend(vectors.shape[1])
        similar.add(np.arange(len(vectors)), np.asarray(vectors, np.float32))
        used.append(name)
        for part in (None, *range(STRETCHES)):
            some = experience if part is None else stretch(experience, part)
            when = times if times is None or part is None else stretch([times], part)[0]
            asked = held_out(Experienced.of(graph_of(some), similar, when), arguments.seed)
            if asked is not None:
                found["walks" if name == "wikispeedia" else "records"].append(asked)
                print(name, part, sum(map(len, some)), "steps", asked.count, "questions")
    weights = {of: named(fit(some)) for of, some in found.items() if some}
    stored = {"command": "python -m benchmarks.priors.fit_next_priors", "seed": arguments.seed, "data": used}
    arguments.to.write_text(json.dumps({**stored, "weights": weights}, indent=1) + "\n")
    print(f"written to {arguments.to}")


def graph_of(trajectories: list[np.ndarray]) -> CooccurrenceGraph:
    """Returns the experience of trajectories, each given as the rows of its steps."""
    lengths = [len(one) for one in trajectories]
    position = np.concatenate([np.arange(length) for length in lengths])
    return CooccurrenceGraph(np.concatenate(trajectories), np.repeat(np.arange(len(lengths)) + 1, lengths), position)


def stretch(trajectories: list[np.ndarray], part: int) -> list[np.ndarray]:
    """Returns a part of about 2,000 steps: whole trajectories, or a section of a long one."""
    if len(trajectories) == 1:
        begins = part * (len(trajectories[0]) - STEPS) // (STRETCHES - 1)
        return [trajectories[0][begins : begins + STEPS]]
    begins = part * len(trajectories) // STRETCHES
    ends = int(np.searchsorted(np.cumsum([len(one) for one in trajectories[begins:]]), STEPS))
    return trajectories[begins : begins + ends]


def fit(held: list[Held]) -> np.ndarray:
    """Returns (2, F) weights for the questions of some data sets; every part has the same weight."""
    rows = []
    for asked in ([one.known for one in held], [one.new for one in held]):
        some = [sample(join(one).choices, START) for one in asked if one]
        choices = joined([replace(one, weight=one.weight / one.weight.sum()) for one in some])
        rows.append(logit.fit(choices, START, RIDGE * (choices.features.var(axis=0).astype(float) + 1e-3)))
    hidden = joined([one.hidden[0].choices for one in held if one.hidden])
    never = FEATURES.index("never")
    asked_once_more = replace(held[0].hidden[0], choices=hidden)
    rows[0][never] = with_never(rows[0], asked_once_more)[never]
    return np.stack(rows)


def joined(some: list[Choices]) -> Choices:
    """Joins the questions of all parts."""
    sizes = np.cumsum([0, *(len(one.features) for one in some[:-1])])
    return Choices(
        np.concatenate([one.features for one in some]),
        np.concatenate([one.starts + size for one, size in zip(some, sizes, strict=True)]),
        np.concatenate([one.target for one in some]),
        np.concatenate([one.weight for one in some]),
        np.concatenate([one.offset for one in some]),
    )


def named(weights: np.ndarray) -> dict[str, dict[str, float]]:
    """Returns the weights that are not small, by kind of question and feature."""
    return {
        kind: {name: round(float(weight), 3) for name, weight in zip(FEATURES, row, strict=True) if abs(weight) >= 5e-3}
        for kind, row in zip(KINDS, weights, strict=True)
    }


if __name__ == "__main__":
    main()
