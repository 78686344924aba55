"""``python -m benchmarks.priors.fit_priors``: weights of the retrieval mixture for indexes with little feedback.

Fits one set of weights, and their change with the number of past requests. The data are held-out parts of the
``experience`` of the tasks of use (see ``benchmarks.real.use``), LoCoMo's questions (see ``benchmarks.real.locomo``),
and the history of any repository (``--git``). The test parts are never read. Every data set is also left out once: the
priors from the other sets are compared with weights fitted on that set, and written to ``without.json``.

In an index whose uses are almost all of new memories, recall without feedback replaces the weights of a question (see
``Priors.at``). The fit knows the share of it in each sample.

The weight of a repeated request is fitted afterwards, with all other weights fixed (``--again`` fits only this one).
Held-out requests rarely repeat past ones, so they hardly determine this weight. Therefore half of its data are past
requests that are sent again as queries.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import report
from benchmarks.real.data import find, load_encoder
from benchmarks.real.dialogue import read as read_dialogues
from benchmarks.real.locomo import FILES
from benchmarks.real.use_mixture import corpus_of, evidence_builder, history
from benchmarks.real.use_tasks import TASKS, Requests, Task, last, read
from pam_retriever.retrieval.mixture import logit
from pam_retriever.retrieval.mixture.fitting import sample
from pam_retriever.retrieval.mixture.history import FirstUses, History
from pam_retriever.retrieval.mixture.holdout import FULL_BELOW, PROPOSALS, HeldOutQuestions, ask_held_out, ask_of, join
from pam_retriever.retrieval.mixture.logit import Choices
from pam_retriever.retrieval.mixture.mixture import (
    PLAIN,
    PRIORS,
    UNAIDED,
    Evidence,
    Priors,
    size_in_decades,
    unaided,
)
from pam_retriever.store.feedback_fit import KINDS

Scores = npt.NDArray[np.float32]
WITHOUT = Path(__file__).parent / "without.json"
SIZES = (100, 300, 1000, 3000, 6000)
FEW, NEXT, STARTS = (10, 30, 100, 300), 100, 4  # for the next requests: sizes, queries, places
RIDGE = 1e-2  # relative to the variance of a feature
SLOPE_RIDGE = 1e-1  # the change with size has a stronger ridge, towards zero
WITHOUT_FEEDBACK = UNAIDED.keys() - {
    PLAIN
}  # these keep the weights of recall without feedback: the data have too few examples
AGAIN, AGAIN_SIZES, AGAIN_QUESTIONS = "asked_again", (10, 30, 100, 300, 1000), 100
QUESTIONS = 400  # per sample: more queries hardly improve the priors for other data sets
MOST_FILES, TEXT = 20, 700
# the start weights for sampling candidates: the fit itself does not depend on them
START = {
    "plain": 0.5,
    "similarity": 3.0,
    "words": 1.0,
    "names": 1.0,
    "regression": 0.5,
    "expanded_words": 1.5,
    "profile": 2.0,
}


@dataclass(frozen=True)
class Sample:
    """Held-out questions of one kind, from one data set with one size of experience.

    Attributes:
        data: name of the data set.
        requests: number of past requests.
        novelty: the share of recall without feedback in the weights.
        features: names of the columns of the candidates.
        choices: the questions.
    """

    data: str
    requests: int
    novelty: float
    features: tuple[str, ...]
    choices: Choices


def worlds(arguments: argparse.Namespace, embed: Callable[[list[str]], Scores]) -> Iterator[tuple[str, Task]]:
    """Yields the name and the task of each data set."""
    folder = find(arguments.folder, ("use",), __doc__ or "")
    for name in TASKS:
        yield name, read(folder / name, embed, with_tests=False)
    for conversation in read_dialogues(find(arguments.locomo, FILES, __doc__ or "")):
        yield "locomo", dialogue(conversation, embed)
    for path in arguments.git:
        yield f"git {path.resolve().name}", _repository(path, embed)


def _task(name: str, texts: list[str], cues: list[str], used: list[list[int]], embed: Any) -> Task:
    requests = Requests(cues, embed(cues), used)
    none = requests.take(np.empty(0, np.int64))
    return Task(name, texts, embed(texts), requests, none, np.empty(0, np.int64), np.ones(len(texts), bool))


def dialogue(conversation: Any, embed: Any) -> Task:
    """Returns a dialogue's questions, in random order, as requests that used its turns."""
    position = {turn["id"]: at for at, turn in enumerate(conversation.turns)}
    order = np.random.default_rng(0).permutation(len(conversation.questions))
    questions = [conversation.questions[at] for at in order.tolist()]
    texts = [turn["text"] for turn in conversation.turns]
    used = [sorted(position[id] for id in evidence) for _, evidence, _ in questions]
    sessions = conversation.sessions
    walks = [np.flatnonzero(sessions == session).tolist() for session in np.unique(sessions)]
    made = _task("locomo", texts, [question for question, _, _ in questions], used, embed)
    return replace(made, trajectories=[walk for walk in walks if len(walk) > 1])


def _repository(path: Path, embed: Any) -> Task:
    """Returns the task of a repository: commit messages, and the changed files that still exist."""
    command = ["git", "-C", str(path), "log", "--reverse", "--name-only", "--format=%x00%s"]
    log = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    tracked = subprocess.run(
        ["git", "-C", str(path), "ls-files"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    position = {name: at for at, name in enumerate(tracked)}
    cues, used = [], []
    for commit in log.split("\x00")[1:]:
        message, *names = [line for line in commit.splitlines() if line]
        touched = sorted({position[name] for name in names if name in position})
        if 0 < len(touched) <= MOST_FILES:
            cues.append(message)
            used.append(touched)
    texts = [f"{name}\n{(path / name).read_bytes()[:TEXT].decode(errors='replace')}" for name in tracked]
    return _task("git", texts, cues, used, embed)


def sizes_of(task: Task) -> list[int]:
    """Returns the numbers of past requests after which a data set is asked."""
    total = len(task.experience)
    return sorted({size for size in SIZES if size < total} | {min(total, SIZES[-1])})


def samples(name: str, task: Task) -> list[list[Sample]]:
    """Returns the samples of each kind of question, one per size of experience. One without questions is left out."""
    found: list[list[Sample]] = [[] for _ in KINDS]
    total, corpus = len(task.experience), corpus_of(task)
    make = evidence_builder(corpus)
    for n in sizes_of(task):
        past, random = history(last(task, n), corpus), np.random.default_rng(0)
        asked, log = ask_held_out(past, make, seed=0), past.log()
        for mine, questions, novelty in zip(found, asked, _novelties(log.novelty), strict=True):
            if questions is not None:
                mine.append(_sample(name, n, novelty, make(log).features, questions, random))
    past = history(task, corpus)
    for n in (size for size in FEW if 2 * size <= total):
        random, kinds_asked, novelties = np.random.default_rng(0), [[] for _ in KINDS], []
        for part, (training, held, first_uses) in enumerate(_next(past, n)):
            log = past.log(training)
            evidence = make(log)
            novelties.append(log.novelty)
            for kind, questions in ask_of(past, evidence, held, first_uses, random, part):
                kinds_asked[kind].append(questions)
        mean = float(np.mean(novelties))
        for mine, several, novelty in zip(found, kinds_asked, _novelties(mean), strict=True):
            if several:
                mine.append(_sample(name, n, novelty, evidence.features, join(several), random))
    return [[one for one in mine if one.choices.weight.any()] for mine in found]


def _novelties(of_questions: float) -> tuple[float, ...]:
    """Returns the share of recall without feedback for each kind: only questions have one."""
    return (of_questions, *[0.0] * (len(KINDS) - 1))


def _sample(
    name: str,
    n: int,
    novelty: float,
    every: tuple[str, ...],
    questions: HeldOutQuestions,
    random: np.random.Generator,
) -> Sample:
    others = [at for at, feature in enumerate(every) if feature != AGAIN and feature not in WITHOUT_FEEDBACK]
    features = tuple(every[at] for at in others)
    few = np.sort(random.permutation(len(questions))[:QUESTIONS])
    choices = questions.take(few).settled().choices
    choices = replace(choices, features=choices.features[:, others])
    chosen = sample(choices, np.array([START.get(feature, 0.0) for feature in features]))
    return Sample(name, n, novelty, features, chosen)


def _next(past: History, n: int) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], FirstUses]]:
    """Yields ``n`` known requests and the following ones as queries, from a few places in the history.

    The usual held-out fifth of ``n`` requests would be too few queries. If the data have times, an item did not exist
    before its first use; otherwise every item always existed.
    """
    total, size = len(past), len(past.stored)
    tests = min(total - n, NEXT)
    request, rows, _ = past.uses.expand(np.arange(total))
    first = np.full(size, -1)
    np.maximum.at(first, rows, total)
    np.minimum.at(first, rows, request)
    for start in np.unique(np.linspace(0, total - n - tests, STARTS).astype(np.int64)).tolist():
        later = first >= start + n if past.timed else np.zeros(size, bool)
        training, held = np.arange(start, start + n), np.arange(start + n, start + n + tests)
        yield training, held, FirstUses(later, 0.0, np.zeros(size, bool))


def fit(chosen: list[Sample], features: tuple[str, ...]) -> npt.NDArray[np.float64]:
    """Returns (2, F) weights at 1,000 requests and their change per factor of ten; every sample has the same weight."""
    parts, sizes = [], []
    for one in chosen:
        x, decades = one.choices.features * np.float32(1 - one.novelty), size_in_decades(one.requests)
        weight = one.choices.weight / one.choices.weight.sum()
        offset = one.choices.offset + _unaided(one)
        parts.append(
            replace(one.choices, features=np.concatenate([x, decades * x], axis=1), weight=weight, offset=offset)
        )
        sizes.append(len(x))
    offset = np.cumsum([0, *sizes[:-1]])
    joined = Choices(
        np.concatenate([one.features for one in parts]),
        np.concatenate([one.starts + at for one, at in zip(parts, offset, strict=True)]),
        np.concatenate([one.target for one in parts]),
        np.concatenate([one.weight for one in parts]),
        np.concatenate([one.offset for one in parts]),
    )
    scale = joined.features[:, : len(features)].var(axis=0).astype(float) + 1e-3
    ridge = np.concatenate([RIDGE * scale, SLOPE_RIDGE * scale])
    return logit.fit(joined, np.zeros(len(ridge)), ridge).reshape(2, -1)


def _unaided(one: Sample) -> Scores:
    """Returns the part (P,) of recall without feedback in the scores of the candidates."""
    plain = unaided(one.features)
    if plain is None:  # the fit of a single weight
        return np.zeros(len(one.choices.features), np.float32)
    return one.choices.features @ plain * np.float32(one.novelty)


def again(name: str, task: Task) -> list[Sample]:
    """Returns past requests as queries, and as many held-out requests, at each size of experience."""
    found = []
    for n in (size for size in AGAIN_SIZES if size < len(task.experience)):
        corpus = corpus_of(task)
        past, make = history(last(task, n), corpus), evidence_builder(corpus)
        random = np.random.default_rng(0)
        repeated = np.sort(random.permutation(n)[:AGAIN_QUESTIONS])
        held = np.sort(random.permutation(n)[: max(n // 5, 1)])[:AGAIN_QUESTIONS]
        for training, questions in ((np.arange(n), repeated), (np.setdiff1d(np.arange(n), held), held)):
            log = past.log(training)
            evidence = make(log)
            choices = _choices(evidence, past, questions)
            start = np.array([START.get(feature, 0.0) for feature in evidence.features])
            found.append(Sample(name, n, log.novelty, evidence.features, sample(choices, start)))
    return found


def _choices(evidence: Evidence, past: History, questions: npt.NDArray[np.int64]) -> Choices:
    """Returns the candidates of past requests with their features and targets, as for new queries."""
    cues = past.cues(questions)
    pools = evidence.pools(cues, FULL_BELOW, PROPOSALS)
    position, rows, weights = past.uses.expand(questions)
    target = pools.add_up(position, rows, weights)
    total = np.bincount(pools.cue, target, len(questions))
    reached = total > 0  # a query is left out if no source proposed a used item
    target /= np.maximum(total, 1e-9)[pools.cue]
    choices = Choices(
        evidence.score(cues, pools), pools.starts, target, np.ones(len(questions)), np.zeros(len(pools), np.float32)
    )
    return choices.take(np.flatnonzero(reached))


def fit_again(chosen: list[Sample], prior: dict[str, list[float]]) -> list[float]:
    """Returns the weight of a repeated request, and its change with size; all other weights are fixed."""
    parts = []
    for one in chosen:
        at = one.features.index(AGAIN)
        weights = _weights(prior, one, without=AGAIN)
        choices = replace(
            one.choices,
            features=one.choices.features[:, [at]],
            offset=one.choices.offset + one.choices.features @ weights,
        )
        parts.append(replace(one, novelty=0.0, features=(AGAIN,), choices=choices))
    return [round(float(weight), 4) for weight in fit(parts, (AGAIN,))[:, 0]]


def loss(weights: npt.NDArray[np.float64], one: Sample) -> float:
    """Returns the mean loss of one sample with these weights."""
    at = (weights[0] + size_in_decades(one.requests) * weights[1]) * (1 - one.novelty)
    choices = replace(one.choices, offset=one.choices.offset + _unaided(one))
    return _mean_loss(at, choices)


def _mean_loss(weights: Scores, choices: logit.Choices) -> float:
    return float(np.average(logit.log_loss(weights, choices), weights=choices.weight))


def named(weights: npt.NDArray[np.float64], features: tuple[str, ...]) -> dict[str, list[float]]:
    return {name: [round(float(w), 4) for w in weights[:, at]] for at, name in enumerate(features)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the tasks (default: 'use' in PAM_DATA_DIR)")
    parser.add_argument("--locomo", type=Path, help="path of locomo10.json (default: found in PAM_DATA_DIR)")
    parser.add_argument("--git", type=Path, nargs="*", default=[], help="git repositories as further data")
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--again", action="store_true", help="fit only the weight of a repeated request")
    parser.add_argument("--dry-run", action="store_true", help="write neither priors nor results")
    arguments = parser.parse_args()
    embed = load_encoder(arguments.embedder)
    tasks = []
    for name, task in worlds(arguments, embed):
        tasks.append((name, task))
        print(f"{name}: {len(task.experience)} requests, {len(task.texts)} things", flush=True)
    if arguments.again:
        stored, table = json.loads(WITHOUT.read_text("utf-8")), []
    else:
        stored, table = fit_all(tasks)
    repeated = [sample for name, task in tasks for sample in again(name, task)]
    for left_out, weights in ((None, stored["all"]), *stored["without"].items()):
        some = [one for one in repeated if one.data != left_out]
        weights["question"][AGAIN] = fit_again(some, weights["question"])
        weights |= {kind: weights[kind] | {AGAIN: [0.0, 0.0]} for kind in KINDS[1:]}  # a stored cue is no request
    print(f"{AGAIN}: {stored['all']['question'][AGAIN]}")
    if arguments.dry_run:
        return
    about = "benchmarks/priors/fit_priors.py; value at 1,000 requests, change a decade"
    PRIORS.write_text(json.dumps({"about": about, "weights": stored["all"]}, indent=1) + "\n")
    WITHOUT.write_text(json.dumps(stored, indent=1) + "\n")
    if arguments.again:
        losses = [
            {"data": one.data, "requests": one.requests, "questions": len(one.choices.starts)}
            | {name: loss_of(one, stored, name == "with") for name in ("with", "without")}
            for one in repeated
        ]
        result = {"seed": 0, "sizes": AGAIN_SIZES, "weight": stored["all"]["question"][AGAIN], "losses": losses}
        print(report.write("priors/asked_again", result))
    else:
        print(report.write("priors/fit_priors", {"seed": 0, "sizes": SIZES, "losses": table}))


def loss_of(one: Sample, stored: dict[str, Any], again: bool) -> float:
    """Returns the mean loss of one sample by the priors from other data, with or without the weight of repeats."""
    weights = _weights(stored["without"][one.data]["question"], one, without=None if again else AGAIN)
    return _mean_loss(weights, one.choices)


def _weights(prior: dict[str, list[float]], one: Sample, without: str | None) -> Scores:
    """Returns the weights (F,) that a prior gives a question, for the index of a sample."""
    pairs = {name: (pair[0], pair[1]) for name, pair in prior.items() if name != without}
    weights: Scores = Priors(dict.fromkeys(KINDS, pairs)).at(one.features, one.requests, one.novelty)[0]
    return weights


def fit_all(tasks: list[tuple[str, Task]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Fits all weights but that of repeats, on all data sets and on all but each; returns the losses of both."""
    found: list[list[Sample]] = [[] for _ in KINDS]
    for name, task in tasks:
        for mine, more in zip(found, samples(name, task), strict=True):
            mine += more
    features = found[0][0].features
    data = list(dict.fromkeys(name for name, _ in tasks))
    stored: dict[str, Any] = {"all": {}, "without": {name: {} for name in data}}
    table: list[dict[str, Any]] = []
    for kind, mine in zip(KINDS, found, strict=True):
        everything = fit(mine, features)
        stored["all"][kind] = named(everything, features)
        for name in data:
            others = [one for one in mine if one.data != name]
            without = fit(others, features)
            stored["without"][name][kind] = named(without, features)
            for one in (one for one in mine if one.data == name):
                row = {"kind": kind, "data": name, "requests": one.requests, "questions": len(one.choices.starts)}
                own = fit([one], features)
                losses = {"without it": loss(without, one), "with it": loss(everything, one), "its own": loss(own, one)}
                table.append(row | losses)
                print({key: round(value, 3) if isinstance(value, float) else value for key, value in table[-1].items()})
    return stored, table


if __name__ == "__main__":
    main()
