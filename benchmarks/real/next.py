"""``python -m benchmarks.real.next``: the next article, by ``recall_next`` and by baselines.

Data and steps are the same as in ``benchmarks.real.wikispeedia``: at most 3,000 steps of test walks, HR@20 and MRR@20;
the current article never counts as a hit. The second part uses experience without a random fifth of the articles, and
measures steps after such an article, before such an article, and between others. Baselines score an article by the last
three of the walk, weighted 1, 1/2 and 1/3, and by the last one alone; both are reported.

Second order, VSKNN and STAN read the whole walk. They and EASE are tuned by MRR@20 on 300 steps of the last fifth of
the experience (``benchmarks.baselines.sessions`` has the grids). ``benchmarks.real.sequence`` measures SASRec.

With ``--part tuning`` the experience is split once more, and the test walks are not used.
"""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from benchmarks import report
from benchmarks.baselines.sessions import Session, grids
from benchmarks.real.recommenders import EASE
from benchmarks.real.wikispeedia import (
    DEPTH,
    HIDDEN_SHARE,
    QUERIES,
    WINDOW,
    Rows,
    Walk,
    baselines,
    draw_steps,
    embed,
    evaluate_next,
    experience_of,
    find_folder,
    fit_index,
    hide,
    parser_of,
    part_of,
    rank,
    read,
    split,
)
from pam_retriever import PredictiveAssociativeIndex

Steps = list[tuple[Walk, int]]
BATCH, TUNED_ON, REGULARISATIONS = 100, 300, (50.0, 200.0, 1_000.0)


def recalled(index: PredictiveAssociativeIndex, steps: Steps) -> list[Rows]:
    """Returns the ranking of ``recall_next`` for each step, without the current article."""
    ranked = []
    for start in range(0, len(steps), BATCH):
        some = steps[start : start + BATCH]
        queries = [list(map(str, walk.articles[:at])) for walk, at in some]
        for (walk, at), hits in zip(some, index.recall_next_many(queries, DEPTH + 1), strict=True):
            rows = np.array(list(map(int, hits.ids)), np.int64)
            ranked.append(rows[rows != walk.articles[at - 1]][:DEPTH])
    return ranked


def by_scores(scorer: object, steps: Steps, last: int) -> list[Rows]:
    """Returns the scores by single articles, from the ``last`` ones of the walk."""
    cues = sorted({article for walk, at in steps for article in walk.articles[max(0, at - last) : at]})
    position = {cue: row for row, cue in enumerate(cues)}
    parts: list[npt.NDArray[np.float32]] = [
        scorer.scores(np.array(cues[at : at + 500]))  # type: ignore[attr-defined]
        for at in range(0, len(cues), 500)
    ]
    answers = np.concatenate(parts)
    length = np.abs(answers).sum(axis=1, keepdims=True)
    answers = answers / np.where(length > 0, length, 1)
    ranked = []
    for walk, at in steps:
        before = walk.articles[max(0, at - last) : at][::-1]
        total = np.sum([answers[position[cue]] / distance for distance, cue in enumerate(before, start=1)], axis=0)
        ranked.append(rank(total[None], np.array([before[0]]))[0])
    return ranked


def by_sessions(model: Session, steps: Steps) -> list[Rows]:
    """Returns the scores of a model of whole walks."""
    return [
        rank(model.scores(walk.articles[:at])[None].astype(np.float32), np.array([walk.articles[at - 1]]))[0]
        for walk, at in steps
    ]


def tuned(training: list[Walk], articles: int, seed: int) -> dict[str, Session]:
    """Returns the best model of each grid by the last fifth of experience; callers fit it again on all of it."""
    first, rest = split(training)
    steps = draw_steps(rest, seed)[:TUNED_ON]
    best = {}
    for name, grid in grids().items():
        found = []
        for model in grid:
            model.fit(lists(first), articles)
            found.append(evaluate_next(steps, by_sessions(model, steps))["MRR@20"])
        best[name] = grid[int(np.argmax(found))]
        print(f"{name}: {best_name(best[name])}, MRR@20 {max(found):.3f} where it was tuned", flush=True)
    return best


def tuned_ease(training: list[Walk], vectors: npt.NDArray[np.float32], seed: int) -> EASE:
    """Returns EASE with the best regularisation on the last fifth of the experience."""
    first, rest = split(training)
    steps = draw_steps(rest, seed)[:TUNED_ON]
    found = {}
    for regularisation in REGULARISATIONS:
        model = EASE(regularisation)
        model.fit(experience_of(first), vectors, WINDOW)
        found[regularisation] = evaluate_next(steps, by_scores(model, steps, 1))["MRR@20"]
    return EASE(max(found, key=lambda one: found[one]))


def lists(walks: list[Walk]) -> list[tuple[int, ...]]:
    """Returns the articles of each walk that has at least two."""
    return [walk.articles for walk in walks if len(walk.articles) > 1]


def best_name(model: Session) -> str:
    """Returns the settings of a model as text."""
    return ", ".join(f"{name} {value}" for name, value in vars(model).items() if not name.startswith("_"))


def questions(test: list[Walk], hidden: set[int], seed: int) -> dict[str, Steps]:
    """Returns at most 3,000 steps of each kind: after a hidden article, before a hidden article, and between others."""
    steps = [(walk, at) for walk in test for at in range(1, len(walk.articles))]
    steps = [steps[at] for at in np.random.default_rng(seed).permutation(len(steps))]

    def chosen(after: bool, before: bool) -> Steps:
        found = [
            (walk, at)
            for walk, at in steps
            if (walk.articles[at - 1] in hidden) == after and (walk.articles[at] in hidden) == before
        ]
        return found[:QUERIES]

    return {
        "after a new article": chosen(True, False),
        "next is new": chosen(False, True),
        "between known articles": chosen(False, False),
    }


def main() -> None:
    parser = parser_of(__doc__, "real/next")
    parser.add_argument("--only-fit", action="store_true", help="only measure the time of adding and fitting")
    arguments = parser.parse_args()
    titles, walks = read(find_folder(arguments.folder))
    training, test = part_of(walks, arguments.part)
    vectors = embed(titles, arguments.model)
    hidden = set(
        np.random.default_rng(arguments.seed).permutation(len(titles))[: int(HIDDEN_SHARE * len(titles))].tolist()
    )
    settings = (
        (training, {"all": draw_steps(test, arguments.seed)}),
        (hide(training, hidden), questions(test, hidden, arguments.seed)),
    )
    table: dict[str, dict[str, dict[str, float]]] = {}
    if arguments.only_fit:
        times = []
        for experienced, _ in settings:
            processor = time.process_time()
            _, taken = fit_index(titles, vectors, experienced, arguments.seed)
            times.append({"clock": taken, "processor": time.process_time() - processor})
        print(times, report.write(arguments.name, {"seed": arguments.seed, "seconds_to_add_and_fit": times}))
        return
    seconds = []
    sessions = tuned(training, len(titles), arguments.seed)
    ease = tuned_ease(training, vectors, arguments.seed)
    for experienced, step_sets in settings:
        index, taken = fit_index(titles, vectors, experienced, arguments.seed)
        seconds.append(taken)
        scorers = baselines() | {"EASE": ease}
        for model in sessions.values():
            model.fit(lists(experienced), len(titles))
        for scorer in scorers.values():
            scorer.fit(experience_of(experienced), vectors, WINDOW)
        for name, steps in step_sets.items():
            row = table.setdefault(name, {})
            row["recall_next"] = evaluate_next(steps, recalled(index, steps))
            row |= {method: evaluate_next(steps, by_sessions(model, steps)) for method, model in sessions.items()}
            for method, scorer in scorers.items():
                for last in (1, 3):
                    row[f"{method}, last {last}"] = evaluate_next(steps, by_scores(scorer, steps, last))
            print(f"{name}, {len(steps)} steps")
            print(report.table(["HR@20", "MRR@20"], row, digits=3))
    result = {
        "seed": arguments.seed,
        "part": arguments.part,
        "embedder": arguments.model or "all-MiniLM-L6-v2",
        "walks": {"training": len(training), "test": len(test)},
        "steps": {name: len(steps) for _, step_sets in settings for name, steps in step_sets.items()},
        "seconds_to_add_and_fit": seconds,
        "tuned": {name: best_name(model) for name, model in sessions.items()} | {"EASE": ease.regularisation},
        "next": table,
    }
    print(f"\nwritten to {report.write(arguments.name, result)}")


if __name__ == "__main__":
    main()
