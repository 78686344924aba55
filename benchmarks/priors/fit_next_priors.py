"""``python -m benchmarks.priors.fit_next_priors``: weights of ``recall_next`` before there is enough to fit them.

On three short stretches of each data set the weights are fitted from next to nothing, on the end of the stretch; the
prior is their mean. Walks and commits count alike. Some weights are bounded, because an index may be far smaller than
these: what came next comes before what never did, a longer context counts more, and the last step itself does not come.

The tests are not looked at: Wikispeedia gives its first 80 % of walks, a repository of ``data/use`` its ``experience``.
Writes ``pam_retriever/retrieval/sequences/priors.json``; ``--without`` leaves data sets out, to be measured on those.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.real import commits, data, wikispeedia
from pam_retriever.ann.exact import ExactBackend
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.retrieval.sequences.features import FEATURES
from pam_retriever.retrieval.sequences.fitting import Experienced, fit_next
from pam_retriever.retrieval.sequences.mixture import KINDS, PRIORS, NextMixture

LEAST = {"came_next": 3.0, "came_once": 0.0, "order_1": 1.0, "order_2": 0.5, "order_3": 0.5, "order_4": 0.2}
MOST_AGAIN = -4.0
STRETCHES, STEPS = 3, 2_000  # of each data set, and the steps of each
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
    found: dict[str, list[NextMixture]] = {"walks": [], "commits": []}
    used = []
    for name in ("wikispeedia", *REPOSITORIES):
        if name in arguments.without:
            continue
        if name == "wikispeedia":
            texts, walks = wikispeedia.read(root / name)
            texts = [text.replace("_", " ") for text in texts]
            experience = [np.array(walk.articles) for walk in wikispeedia.split(walks)[0] if len(walk.articles) > 1]
        else:
            repository = commits.read(root / "use" / name)
            texts = repository.texts
            experience = [np.concatenate(repository.commits[: len(repository.commits) - repository.tests])]
        vectors = embedder.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        similar = ExactBackend(vectors.shape[1])
        similar.add(np.arange(len(vectors)), np.asarray(vectors, np.float32))
        used.append(name)
        for part in range(STRETCHES):
            some = stretch(experience, part)
            mixture, asked, _ = fit_next(Experienced.of(graph_of(some), similar), arguments.seed, nothing())
            found["walks" if name == "wikispeedia" else "commits"].append(mixture)
            print(name, part, sum(map(len, some)), "steps", asked, "questions")
    mean = np.mean([np.mean([one.weights for one in some], axis=0) for some in found.values() if some], axis=0)
    for name, least in LEAST.items():
        at = FEATURES.index(name)
        mean[:, at] = np.maximum(mean[:, at], least)
    again = FEATURES.index("again")
    mean[:, again] = np.minimum(mean[:, again], MOST_AGAIN)
    weights = {
        kind: {name: round(float(weight), 3) for name, weight in zip(FEATURES, row, strict=True) if abs(weight) >= 5e-3}
        for kind, row in zip(KINDS, mean, strict=True)
    }
    stored = {"command": "python -m benchmarks.priors.fit_next_priors", "seed": arguments.seed, "data": used}
    arguments.to.write_text(json.dumps({**stored, "weights": weights}, indent=1) + "\n")
    print(f"written to {arguments.to}")


def graph_of(trajectories: list[np.ndarray]) -> CooccurrenceGraph:
    """The experience of trajectories, each the rows of its steps."""
    lengths = [len(one) for one in trajectories]
    position = np.concatenate([np.arange(length) for length in lengths])
    return CooccurrenceGraph(np.concatenate(trajectories), np.repeat(np.arange(len(lengths)) + 1, lengths), position)


def stretch(trajectories: list[np.ndarray], part: int) -> list[np.ndarray]:
    """A part of experience of about 2,000 steps: whole trajectories, or a piece of a long one."""
    if len(trajectories) == 1:
        begins = part * (len(trajectories[0]) - STEPS) // (STRETCHES - 1)
        return [trajectories[0][begins : begins + STEPS]]
    begins = part * len(trajectories) // STRETCHES
    ends = int(np.searchsorted(np.cumsum([len(one) for one in trajectories[begins:]]), STEPS))
    return trajectories[begins : begins + ends]


def nothing() -> NextMixture:
    """Weights that know that what often came next comes again, and no more."""
    weights = np.zeros((len(KINDS), len(FEATURES)), np.float32)
    for name, weight in (("order_1", 0.5), ("came_next", 1.0), ("again", -2.0), ("like_steps", 1.0)):
        weights[:, FEATURES.index(name)] = weight
    return NextMixture(weights)


if __name__ == "__main__":
    main()
