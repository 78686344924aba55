"""``python -m benchmarks.real.locomo_feedback``: half of a dialogue's questions are feedback, the other half queries.

LoCoMo as in ``benchmarks.real.locomo``. Each dialogue is its own index, and its sessions are trajectories. A random
half of its questions is given as feedback with the turns that answer them; the other half are queries. Then the halves
swap. Rows: default recall by text without feedback; with feedback and the priors; and with feedback after ``fit``
weighed the sources. Each row exists for an index without times, and for an index whose turns have the times of their
sessions; there ``now`` is after the last session. The priors were fitted without LoCoMo. The weights of recall without
feedback were chosen on the first two dialogues, so read the results on the others. Gains are paired by
question.
"""

from __future__ import annotations

import argparse
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import report
from benchmarks.real.data import find, load_encoder
from benchmarks.real.dialogue import Conversation, read
from benchmarks.real.locomo import FILES, TUNED_ON, index_of
from benchmarks.real.times import session_times
from benchmarks.real.use_mixture import priors_for
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.evaluation import mean_interval
from pam_retriever.retrieval.mixture.mixture import Priors
from pam_retriever.timewords.reader import read_question

KS = (5, 10, 20)
NONE, PRIORS, FITTED = "without feedback", "feedback, priors", "feedback, fitted"
TIMED = ", times"
Recalls = npt.NDArray[np.float64]


def recalls(index: PredictiveAssociativeIndex, conversation: Conversation, vectors: Any, questions: Any) -> Recalls:
    """Returns (Q, 3) shares of the evidence among the first k, relative to the largest possible number."""
    rows = []
    for at in questions.tolist():
        question, evidence, _ = conversation.questions[at]
        ids = index.recall(vectors[at], max(KS), text=question, now=last_day(conversation)).ids
        rows.append([len(evidence & set(ids[:k])) / min(k, len(evidence)) for k in KS])
    return np.array(rows)


def last_day(conversation: Conversation) -> datetime:
    """Returns the time of the queries."""
    return max(session_times(conversation))


def measure(conversation: Conversation, embed: Any, seed: int) -> dict[str, Recalls]:
    """Returns each row for one dialogue, questions in the same order; "dated" is 1 for a question with a time."""
    turns = embed([turn["text"] for turn in conversation.turns])
    questions = embed([question for question, _, _ in conversation.questions])
    order = np.random.default_rng(seed).permutation(len(questions))
    now = last_day(conversation)
    found: dict[str, list[Recalls]] = {"dated": []}
    for given, rest in ((order[::2], order[1::2]), (order[1::2], order[::2])):
        texts = [conversation.questions[at][0] for at in given]
        used = [sorted(conversation.questions[at][1]) for at in given]
        found["dated"].append(np.array([bool(read_question(conversation.questions[at][0], now)) for at in rest]))
        for suffix in ("", TIMED):
            index = index_of(conversation, turns, session_times(conversation) if suffix else None)
            part = {NONE: recalls(index, conversation, questions, rest)}
            index.feedback(questions[given], used, text=texts, timestamp=[now.timestamp()] * len(texts))
            part[PRIORS] = recalls(index, conversation, questions, rest)
            index._fit_mixture(seed)  # queries by text do not use the predictor, so it is not trained
            part[FITTED] = recalls(index, conversation, questions, rest)
            for row, values in part.items():
                found.setdefault(row + suffix, []).append(values)
    return {name: np.concatenate(parts) for name, parts in found.items()}


def summary(rows: dict[str, Recalls], seed: int) -> dict[str, Any]:
    """Returns means, and gains over no feedback and over no times, with 95 % bootstrap intervals over questions."""
    columns: dict[str, Any] = {"questions": len(rows[NONE])}

    def intervals(values: Recalls) -> dict[str, Any]:
        return {f"R@{k}": vars(mean_interval(values[:, at], seed)) for at, k in enumerate(KS)}

    for name, values in rows.items():
        columns[name] = intervals(values)
        plain = NONE + TIMED * name.endswith(TIMED)
        if name != plain:
            columns[f"{name}, gain"] = intervals(values - rows[plain])
        if name.endswith(TIMED):
            columns[f"{name}, gain by times"] = intervals(values - rows[name.removesuffix(TIMED)])
    return columns


def parts_of(measured: list[dict[str, Recalls]]) -> dict[str, dict[str, Recalls]]:
    """Returns the rows of all and of reported dialogues, each for all questions, dated questions and the others."""
    found = {}
    for part, some in (("all dialogues", measured), (f"without the first {TUNED_ON}", measured[TUNED_ON:])):
        if some:
            rows = {name: np.concatenate([one[name] for one in some]) for name in some[0]}
            dated = rows.pop("dated").astype(bool)
            every = np.ones(len(dated), bool)
            for kind, where in (("", every), (", dated", dated), (", undated", ~dated)):
                found[part + kind] = {name: values[where] for name, values in rows.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, nargs="?", help="path of locomo10.json (default: found in PAM_DATA_DIR)")
    parser.add_argument("--dialogues", type=int, help="number of dialogues, from the first on")
    parser.add_argument("--embedder", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="real/locomo-feedback", help="name of the JSON file in benchmarks/results")
    arguments = parser.parse_args()
    embed = load_encoder(arguments.embedder)
    priors = priors_for("locomo", "without")
    Priors.read = lambda *_: priors  # type: ignore[method-assign, assignment]  # those that never saw a dialogue

    conversations = read(find(arguments.path, FILES, __doc__ or ""))[: arguments.dialogues]
    measured = []
    for conversation in conversations:
        measured.append(measure(conversation, embed, arguments.seed))
        means = {name: values.mean(axis=0).round(3).tolist() for name, values in measured[-1].items()}
        print(conversation.name, len(measured[-1][NONE]), means, flush=True)
    results = {part: summary(rows, arguments.seed) for part, rows in parts_of(measured).items()}
    for part, columns in results.items():
        shown = {
            name: {k: value["mean"] for k, value in row.items()} for name, row in columns.items() if name != "questions"
        }
        print(f"\n{part}, {columns['questions']} questions")
        print(report.table(list(shown), {f"R@{k}": {name: row[f"R@{k}"] for name, row in shown.items()} for k in KS}))
    print(f"\nwritten to {report.write(arguments.name, {'seed': arguments.seed, 'results': results})}")


if __name__ == "__main__":
    main()
