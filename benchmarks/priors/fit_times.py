"""``python -m benchmarks.priors.fit_times``: the weight of the times in a question, in recall without feedback.

The first two dialogues of LoCoMo (see ``benchmarks.real.locomo``) have 41 questions with a time: too few for a weight.
So each of their questions without a time, whose evidence lies in one session, is asked with the date of that session:
its day, its month with and without the year. People name wrong dates, too: 3 of the 33 dates among the 41 questions
are of a time of which nothing was said. So a tenth of the questions gets another date. The weight of a time of the
calendar is the smallest whose mean of R@5, R@10 and R@20 is within one standard error of the best one's. A time
relative to now ("last week") keeps the weight that was best on the 41 questions: in a question about a dialogue it may
be the speaker's.
"""

from __future__ import annotations

import argparse
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.real.data import find, load_embedder
from benchmarks.real.dialogue import Conversation, Scores, evaluate, rank, read
from benchmarks.real.locomo import FILES, TUNED_ON
from benchmarks.real.times import session_time, session_times
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.timewords.reader import read_question, read_text
from pam_retriever.timewords.scores import TextPeriods, time_scores

WEIGHTS = (0.0, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 1.0, 1.5)
WRONG = (0.0, 0.05, 0.1, 0.2)  # shares of questions with a wrong date
CHOSEN_AT = 0.1
DAYS_OFF = (-30, -3, 3, 30)  # how far a wrong date is from the right one
FORMS = (" on %B {day}, %Y?", ", as mentioned on {day} %B, %Y?", " in %B %Y?", " in %B?")


def dated(question: str, form: str, day: datetime) -> str:
    """Returns a question with a date."""
    return question.rstrip(" ?.") + day.strftime(form).format(day=day.day)


def questions(conversation: Conversation, days_off: int) -> list[tuple[str, set[str], int]]:
    """Returns the questions without a time with the date of their evidence, moved by ``days_off``."""
    days = {turn["id"]: session_time(turn["date"]) for turn in conversation.turns}
    found = []
    for question, evidence, category in conversation.questions:
        of_evidence = {days[turn].date() for turn in evidence}
        if len(of_evidence) > 1 or question.startswith("When") or read_question(question, max(days.values())):
            continue
        day = min(days[turn] for turn in evidence) + timedelta(days=days_off)
        found += [(dated(question, form, day), evidence, category) for form in FORMS]
    return found


def of_times(conversation: Conversation, texts: list[str]) -> Scores:
    """Returns (Q, N) scores of the times in the questions."""
    times = session_times(conversation)
    named = TextPeriods.of([read_text(turn["text"], at) for turn, at in zip(conversation.turns, times, strict=True)])
    stamps = np.array([at.timestamp() for at in times])
    return np.stack([time_scores(read_question(text, max(times)), stamps, named) for text in texts])


def measure(conversation: Conversation, embedder: Any) -> dict[int, Scores]:
    """Returns R@5, R@10 and R@20 of each question at each weight, (W, Q, 3), by the days that its date is off."""
    texts = [turn["text"] for turn in conversation.turns]
    vectors = embedder.encode(texts, normalize_embeddings=True)
    index = PredictiveAssociativeIndex(dim=vectors.shape[1])
    metadata = [{"speaker": turn["speaker"]} for turn in conversation.turns]
    index.add(vectors, [turn["id"] for turn in conversation.turns], texts, metadata)
    for session in np.unique(conversation.sessions):
        index.observe([turn["id"] for turn in conversation.turns if turn["session"] == session])
    dated = questions(conversation, 0)
    words = [question for question, _, _ in dated]
    position = {turn["id"]: at for at, turn in enumerate(conversation.turns)}
    base = np.zeros((len(dated), len(position)))
    hits_of = index.recall(embedder.encode(words, normalize_embeddings=True), k=len(position), text=words)
    for row, hits in zip(base, hits_of, strict=True):
        row[[position[hit.id] for hit in hits]] = [hit.score for hit in hits]
    dated_questions, found = Conversation(conversation.name, conversation.turns, dated), {}
    for off in (0, *DAYS_OFF):  # another date changes the time alone: without times, it is asked with the right one
        bonus = of_times(conversation, [question for question, _, _ in questions(conversation, off)])
        found[off] = np.stack([evaluate(rank(base + weight * bonus), dated_questions)[:, :3] for weight in WEIGHTS])
    return found


def smallest(table: Scores) -> float:
    """Returns the smallest weight whose mean is within one standard error of the best one's, paired by question."""
    values = table.mean(axis=2)  # (W, Q)
    less = values[values.mean(axis=1).argmax()] - values
    error = less.std(axis=1) / np.sqrt(values.shape[1])
    return WEIGHTS[int(np.argmax(less.mean(axis=1) <= error))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", help="path of locomo10.json (default: found in PAM_DATA_DIR)")
    parser.add_argument("--model", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    arguments = parser.parse_args()
    conversations = read(find(arguments.file, FILES, __doc__ or ""))[:TUNED_ON]
    embedder = load_embedder(arguments.model)
    measured = [measure(conversation, embedder) for conversation in conversations]
    by_off = {off: np.concatenate([one[off] for one in measured], axis=1) for off in (0, *DAYS_OFF)}
    wrong = np.mean([by_off[off] for off in DAYS_OFF], axis=0)
    tables = {share: (1 - share) * by_off[0] + share * wrong for share in WRONG}  # (W, Q, 3) each
    result = {
        "questions": by_off[0].shape[1],
        "R@5, R@10, R@20 by share of wrong dates and weight": {
            str(share): {str(weight): row.tolist() for weight, row in zip(WEIGHTS, table.mean(axis=1), strict=True)}
            for share, table in tables.items()
        },
        "best": {str(share): WEIGHTS[int(table.mean(axis=(1, 2)).argmax())] for share, table in tables.items()},
        "smallest within one standard error": {str(share): smallest(table) for share, table in tables.items()},
        "chosen at a share of": CHOSEN_AT,
        "weight": smallest(tables[CHOSEN_AT]),
    }
    print(json.dumps(result, indent=1))
    print(report.write("priors/fit_times", result))


if __name__ == "__main__":
    main()
