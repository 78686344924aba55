"""``python -m benchmarks.priors.fit_next_priors``: the prior of ``recall_next``, for too little experience to fit.

``recall_next`` scores a memory by a weighted sum of several kinds of evidence. This program fits the weights on walks
(Wikispeedia) and on records (repositories) separately, and stores the mean of both. The queries are held-out steps of
three sections of each data set, and of the whole data set. The files of a commit have the same time: its number.

The tests are never read: the data are the first 80 % of the walks of Wikispeedia, and the ``experience`` of each
repository of ``data/use``. The result is ``pam_retriever/retrieval/sequences/prior.json``. ``--without`` leaves data
sets out, so that the prior can be measured on them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.real import commits, data, wikispeedia
from pam_retriever.ann.exact import ExactBackend
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.retrieval.sequences.blend import chosen, fit_parts
from pam_retriever.retrieval.sequences.features import SHARES
from pam_retriever.retrieval.sequences.fitting import ExperienceCopy, HeldOutSplit, held_out
from pam_retriever.retrieval.sequences.mixture import PRIOR
from pam_retriever.store.experience_fit import KINDS

STRETCHES, STEPS = 3, 2_000  # sections of each data set, and steps of each section
QUESTIONS = 1_000  # weight of each section, so that a large data set does not dominate
LEAST = 1e-3  # smaller weights are not written
REPOSITORIES = ("code-brian2", "code-flask", "code-requests")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folder", type=Path, nargs="?", help="folder that contains wikispeedia and use (default: PAM_DATA_DIR)"
    )
    parser.add_argument("--model", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--without", nargs="*", default=[], help="data sets to leave out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--to", type=Path, default=PRIOR, help="file to write")
    arguments = parser.parse_args()
    root = data.find(arguments.folder, (".",), __doc__ or "")
    embedder = data.load_embedder(arguments.model)
    found: dict[str, list[HeldOutSplit]] = {"walks": [], "records": []}
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
            questions = held_out(ExperienceCopy.of(graph_of(some), similar, when), arguments.seed)
            if questions is not None:
                found["walks" if name == "wikispeedia" else "records"].append(questions)
                print(name, part, sum(map(len, some)), "steps", questions.count, "questions")
    parts = np.mean([fit(some) for some in found.values() if some], axis=0)
    stored = {
        "command": "python -m benchmarks.priors.fit_next_priors",
        "seed": arguments.seed,
        "data": used,
        "parts": {
            kind: {name: round(float(part), 3) for name, part in zip(SHARES, row, strict=True) if part >= LEAST}
            for kind, row in zip(KINDS, parts, strict=True)
        },
    }
    arguments.to.write_text(json.dumps(stored, indent=1) + "\n")
    print(f"written to {arguments.to}")


def graph_of(trajectories: list[np.ndarray]) -> CooccurrenceGraph:
    """Returns the experience of trajectories, each given as the rows of its steps."""
    lengths = [len(one) for one in trajectories]
    position = np.concatenate([np.arange(length) for length in lengths])
    return CooccurrenceGraph(np.concatenate(trajectories), np.repeat(np.arange(len(lengths)) + 1, lengths), position)


def stretch(trajectories: list[np.ndarray], part: int) -> list[np.ndarray]:
    """Returns a section of about 2,000 steps: whole trajectories, or a part of a long one."""
    if len(trajectories) == 1:
        begins = part * (len(trajectories[0]) - STEPS) // (STRETCHES - 1)
        return [trajectories[0][begins : begins + STEPS]]
    begins = part * len(trajectories) // STRETCHES
    ends = int(np.searchsorted(np.cumsum([len(one) for one in trajectories[begins:]]), STEPS))
    return trajectories[begins : begins + ends]


def fit(held: list[HeldOutSplit]) -> np.ndarray:
    """Returns (2, S) weights fitted on some data sets; each section has the same weight."""
    rows = []
    for of_kind in ([one.known for one in held], [one.new for one in held]):
        shares, weight = zip(*(chosen(one.choices, len(SHARES)) for found in of_kind for one in found), strict=True)
        weight = [QUESTIONS * one / one.sum() for one in weight]
        rows.append(fit_parts(np.concatenate(shares), np.concatenate(weight), np.full(len(SHARES), 1 / len(SHARES))))
    return np.stack(rows)


if __name__ == "__main__":
    main()
