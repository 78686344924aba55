"""``python -m benchmarks.real.times``: times in questions and in texts, and their effect on recall.

LoCoMo (Maharana et al., ACL 2024; CC BY-NC 4.0, so it is not in this repository): download
``data/locomo10.json`` from https://github.com/snap-research/locomo and pass its path, or set
``PAM_DATA_DIR`` to its folder.

``tests/data`` has the lists: expressions with their answers, questions without a time, and the times in 200 turns of
the dialogues, marked by hand (only ids and positions). A quarter of list 1 was held out until the end. Lists 2 and 3
were written later by somebody else, and mended after their first run (benchmarks/notes/real-data.md). So was list 4,
by somebody who had seen neither the reader nor the other lists; list 5 came after the mending of list 4. From list 9 on
a list has texts, too: things said, each with its times or without one. ``--list N`` reads one list alone. The settings
of recall's source of times were chosen on the first two dialogues, so read the results on the others.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt

from benchmarks import report
from benchmarks.real.data import find, load_embedder
from benchmarks.real.dialogue import METRICS, Conversation, Scores, evaluate, interval, rank, read
from benchmarks.real.locomo import FILES, TUNED_ON, index_of
from benchmarks.real.time_parsers import compare
from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.retrieval.anchors import ANCHORED
from pam_retriever.timewords.lexicon import LANGUAGES
from pam_retriever.timewords.periods import OPEN_END, OPEN_START, Period
from pam_retriever.timewords.reader import read_question, read_text
from pam_retriever.timewords.scores import TextPeriods, time_scores

Ranking = npt.NDArray[np.int64]
Ranges = list[tuple[datetime, datetime]]
LISTS = Path(__file__).parents[2] / "tests" / "data"
LIBRARY, UNFITTED = "library", "before fit"
DEPTH = 100  # hits of the library's own recall
WEIGHT = 0.6  # weight of the source; the library's scores are at most about 1 (benchmarks/priors/fit_times.py)
ROUNDS, AT_ONCE = 3, 100  # rounds of adding; texts per call
FRIDAY = datetime(2024, 3, 15, 10)


def rows(name: str) -> list[dict[str, Any]]:
    """Returns the lines of a list."""
    return [json.loads(line) for line in (LISTS / name).read_text("utf-8").splitlines()]


def session_time(date: str) -> datetime:
    """Returns the time of a session: in LoCoMo "1:56 pm on 8 May, 2023", in other dialogues any form of a date."""
    found = read_text(date, FRIDAY)
    if not found or found[0].relative:
        sys.exit(f"The date of a session is {date!r}, which has no known form.")
    return found[0].start


def _instant(text: str | None, without: datetime) -> datetime:
    return without if text is None else datetime.fromisoformat(text.replace("Z", "+00:00"))


def periods_of(row: dict[str, Any]) -> Ranges:
    """Returns the periods that the reader finds in a question, or in a text: one that has the time it was "said"."""
    if "said" in row:
        return [(period.start, period.end) for period in read_text(row["text"], datetime.fromisoformat(row["said"]))]
    now = datetime.fromisoformat(row["now"])
    if "zone" in row:
        now = now.replace(tzinfo=ZoneInfo(row["zone"]))
    return [(period.start, period.end) for period in read_question(row["text"], now)]


def right(row: dict[str, Any], found: Ranges) -> bool:
    """Returns whether the periods are an answer: exactly, or for a vague one ("holds") within its outer limits.

    A vague expression ("a couple of weeks back") has the period that every answer holds, and the one that none leaves.
    """
    for answer in [row, *row.get("or", [])]:
        expected = [_range(pair) for pair in answer["periods"]]
        if found == expected and "holds" not in answer:
            return True
        if "holds" in answer and len(found) == 1:
            (start, end), (first, last), [outer] = found[0], _range(answer["holds"]), expected
            if outer[0] <= start <= first and last <= end <= outer[1]:
                return True
    return False


def _range(pair: list[str | None]) -> tuple[datetime, datetime]:
    return _instant(pair[0], OPEN_START), _instant(pair[1], OPEN_END)


def lists() -> dict[str, Any]:
    """Returns the shares of correct expressions and of traps read as times, by language and for the held-out part."""

    def shares(name: str, judged: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        found = rows(name)
        results = np.array([judged(row) for row in found], float)
        parts = {language: np.array([row["language"] == language for row in found]) for language in LANGUAGES}
        held = np.array([row["held_out"] for row in found])
        parts |= {"all": np.ones(len(found), bool), "held out": held, "seen": ~held}
        numbers = np.array([row.get("list", 1) for row in found])
        parts |= {f"list {n}": numbers == n for n in np.unique(numbers)}
        return {part: {"n": int(where.sum()), "share": float(results[where].mean())} for part, where in parts.items()}

    return {
        "expressions_right": shares("time_expressions.jsonl", lambda row: right(row, periods_of(row))),
        "traps_taken": shares("time_traps.jsonl", lambda row: bool(read_question(row["text"], FRIDAY))),
    }


def one_list(number: int) -> dict[str, Any]:
    """Returns the counts of one list by language, and each expression, text and trap that is read wrongly."""

    def of(name: str) -> list[dict[str, Any]]:
        return [row for row in rows(name) if row.get("list", 1) == number]

    judged = {"expressions": _judged(of("time_expressions.jsonl")), "texts": _judged(of("time_texts.jsonl"))}
    traps = of("time_traps.jsonl")
    taken = [row for row in traps if read_question(row["text"], FRIDAY)]

    def count(known: Callable[[dict[str, Any]], bool]) -> dict[str, int]:
        good = {name: [good for row, _, good in found if known(row)] for name, found in judged.items()}
        return {
            "expressions": len(good["expressions"]),
            "right": sum(good["expressions"]),
            "texts": len(good["texts"]),
            "texts right": sum(good["texts"]),
            "traps": sum(map(known, traps)),
            "taken": sum(map(known, taken)),
        }

    return {
        "list": number,
        "all": count(bool),
        "languages": {language: count(lambda row, at=language: row["language"] == at) for language in LANGUAGES},
        "no time found": sum(not periods for _, periods, _ in judged["expressions"]),
        "wrong": _wrong(judged["expressions"]),
        "texts wrong": _wrong(judged["texts"]),
        "taken": [row["text"] for row in taken],
    }


Judged = list[tuple[dict[str, Any], Ranges, bool]]


def _judged(found: list[dict[str, Any]]) -> Judged:
    return [(row, periods, right(row, periods)) for row in found for periods in [periods_of(row)]]


def _wrong(judged: Judged) -> list[dict[str, Any]]:
    return [
        {"text": row["text"], "found": [[start.isoformat(), end.isoformat()] for start, end in periods]}
        for row, periods, good in judged
        if not good
    ]


def in_turns(conversations: list[Conversation]) -> dict[str, Any]:
    """Returns precision and recall of the times in marked turns: correct with equal ends and overlapping positions."""
    turns = {
        (conversation.name, turn["id"]): (turn, at < TUNED_ON)
        for at, conversation in enumerate(conversations)
        for turn in conversation.turns
    }
    counts = {True: np.zeros(4, int), False: np.zeros(4, int)}
    for row in rows("times_in_turns.jsonl"):
        if (row["dialogue"], row["turn"]) not in turns:
            continue
        turn, tuned = turns[row["dialogue"], row["turn"]]
        text = turn["text"].removeprefix(f"{turn['speaker']}: ")
        found = read_text(text, session_time(turn["date"]))
        hits = sum(any(_same(period, mark) for mark in row["times"]) for period in found)
        counts[tuned] += [hits, len(found), len(row["times"]), 1]
    return {
        name: {
            "turns": int(count[3]),
            "marked": int(count[2]),
            "precision": float(count[0] / count[1]),
            "recall": float(count[0] / count[2]),
        }
        for name, count in (("tuned on", counts[True]), ("reported", counts[False]))
        if count[2]
    }


def _same(period: Period, mark: dict[str, Any]) -> bool:
    same = (period.start, period.end) == (_instant(mark["start"], OPEN_START), _instant(mark["end"], OPEN_END))
    return same and period.span[0] < mark["span"][1] and mark["span"][0] < period.span[1]


def session_times(conversation: Conversation) -> list[datetime]:
    """Returns the time of each turn: that of its session."""
    return [session_time(turn["date"]) for turn in conversation.turns]


def recalled(conversation: Conversation, embedder: Any, seed: int) -> tuple[Scores, dict[str, Ranking], Any]:
    """Returns the library's results with default settings.

    Returns:
        (Q, N) scores of all turns without times; (Q, 100) ranked turns by name, without and with times (each turn has
        the time of its session, and queries come after the last session), before and after a fit; and (Q,) whether the
        library takes the time of a question from an event ("after the race").
    """
    questions = [question for question, _, _ in conversation.questions]
    texts = [turn["text"] for turn in conversation.turns]
    vectors, question_vectors = (
        embedder.encode(part, normalize_embeddings=True, show_progress_bar=False) for part in (texts, questions)
    )
    times = session_times(conversation)
    position = {turn["id"]: at for at, turn in enumerate(conversation.turns)}
    plain, timed = index_of(conversation, vectors), index_of(conversation, vectors, times)

    def ranked(index: PredictiveAssociativeIndex, **options: Any) -> Ranking:
        found = np.full((len(questions), DEPTH), -1, np.int64)
        for row, hits in zip(found, index.recall(question_vectors, k=DEPTH, text=questions, **options), strict=True):
            row[: len(hits)] = [position[hit.id] for hit in hits]
        return found

    rankings = {}
    for front in (UNFITTED, LIBRARY):
        if front == LIBRARY:
            plain.fit(seed=seed)
            timed.fit(seed=seed)
        rankings |= {f"{front} without": ranked(plain), f"{front} with": ranked(timed, now=max(times))}
    scores = np.zeros((len(questions), len(position)))
    for row, hits in zip(scores, plain.recall(question_vectors, k=len(position), text=questions), strict=True):
        row[[position[hit.id] for hit in hits]] = [hit.score for hit in hits]
    periods = [timed._timeline.periods(question, max(times)) for question in questions]
    return scores, rankings, np.array([bool(found) and found[0].kind == ANCHORED for found in periods])


def of_times(conversation: Conversation, texts: bool) -> tuple[Scores, Any]:
    """Returns (Q, N) scores of the source after the last session, and (Q,) whether a question has a time."""
    times = session_times(conversation)
    named = TextPeriods.of([read_text(turn["text"], at) for turn, at in zip(conversation.turns, times, strict=True)])
    stamps = np.array([at.timestamp() for at in times])
    periods = [read_question(question, max(times)) for question, _, _ in conversation.questions]
    scores = np.stack([time_scores(found, stamps, named if texts else None) for found in periods])
    return scores, np.array([bool(found) for found in periods])


def source(conversations: list[Conversation], embedder: Any, seed: int) -> dict[str, Any]:
    """Measures recall with and without the source, for questions with a time, without one, and for all.

    "with" adds the source to the scores of all turns outside of the library; "library with" uses ``recall`` itself,
    after a fit, and "before fit with" before it.
    """
    judged: dict[str, list[Scores]] = defaultdict(list)
    dated, anchored = [], []
    for conversation in conversations:
        base, rankings, after_event = recalled(conversation, embedder, seed)
        anchored.append(after_event)
        for name, ranking in rankings.items():
            judged[name].append(evaluate(ranking, conversation))
        both, has_time = of_times(conversation, True)
        alone, _ = of_times(conversation, False)
        dated.append(has_time)
        for name, scores in (
            ("without", base),
            ("with", base + WEIGHT * both),
            ("times of memories alone", base + WEIGHT * alone),
        ):
            judged[name].append(evaluate(rank(scores), conversation))
    result = {}
    for part, chosen in (("tuned on", slice(0, TUNED_ON)), ("reported", slice(TUNED_ON, None))):
        if not dated[chosen]:
            continue
        has_time, has_event = np.concatenate(dated[chosen]), np.concatenate(anchored[chosen])
        kinds = {"dated": has_time, "of an event": has_event, "undated": ~has_time & ~has_event}
        kinds["all"] = np.ones(len(has_time), bool)
        tables = {name: np.concatenate(values[chosen]) for name, values in judged.items()}
        result[part] = {kind: _table(tables, where) for kind, where in kinds.items() if where.any()}
    return result


def _table(tables: dict[str, Scores], where: Any) -> dict[str, Any]:
    means = {
        name: dict(zip(METRICS, values[where].mean(axis=0).tolist(), strict=True)) for name, values in tables.items()
    }
    result = {"questions": int(where.sum()), **means}
    pairs = {
        "": ("with", "without"),
        "library_": (f"{LIBRARY} with", f"{LIBRARY} without"),
        "before_fit_": (f"{UNFITTED} with", f"{UNFITTED} without"),
        "fit_": (f"{LIBRARY} with", f"{UNFITTED} with"),
    }
    for prefix, (better, worse) in pairs.items():
        gain = (tables[better] - tables[worse])[where]
        low, high = interval(gain)
        gains = {name: [float(gain[:, at].mean()), float(low[at]), float(high[at])] for at, name in enumerate(METRICS)}
        result |= {f"{prefix}gain": gains, f"{prefix}largest_change": float(np.abs(gain).max())}
    return result


def costs(conversations: list[Conversation]) -> dict[str, float]:
    """Returns microseconds of processor time per question and per text; the first call of each is left out."""
    texts = [turn["text"] for conversation in conversations for turn in conversation.turns]
    questions = [question for conversation in conversations for question, _, _ in conversation.questions]
    result = {}
    for name, reader, some_texts in (("question", read_question, questions), ("text", read_text, texts)):
        reader("What happened on 2023-05-05?", FRIDAY)
        taken = []
        for text in some_texts:
            started = time.perf_counter()
            reader(text, FRIDAY)
            taken.append(1e6 * (time.perf_counter() - started))
        result |= {
            f"{name}_p50_microseconds": float(np.median(taken)),
            f"{name}_mean_microseconds": float(np.mean(taken)),
        }
    return result


def library_costs(conversations: list[Conversation], embedder: Any) -> dict[str, Any]:
    """Compares the processor milliseconds of an index of all turns with times and of one without times."""
    turns = [turn for conversation in conversations for turn in conversation.turns]
    questions = [question for conversation in conversations for question, _, _ in conversation.questions]
    texts = [turn["text"] for turn in turns]
    times = [at for conversation in conversations for at in session_times(conversation)]
    vectors, queries = (
        embedder.encode(part, normalize_embeddings=True, show_progress_bar=False) for part in (texts, questions)
    )
    now, added = max(times), {"without": [], "with": []}
    for _ in range(ROUNDS):
        indexes = {name: PredictiveAssociativeIndex(dim=vectors.shape[1]) for name in added}
        for at in range(0, len(texts), AT_ONCE):
            part = slice(at, at + AT_ONCE)
            ids = [str(position) for position in range(len(texts))[part]]
            for name, index in indexes.items():
                stamps = times[part] if name == "with" else None
                started = time.process_time()
                index.add(vectors[part], ids, texts[part], timestamps=stamps)
                added[name].append(time.process_time() - started)
    started = time.process_time()
    indexes["with"].recall(queries[0], text="What happened in May 2023?", now=now)
    first, dated = time.process_time() - started, np.array([bool(read_question(text, now)) for text in questions])
    taken: dict[str, list[float]] = {name: [] for name in indexes}
    for query, text in zip(queries, questions, strict=True):
        for name, index in indexes.items():
            started = time.process_time()
            index.recall(query, text=text, now=now)
            taken[name].append(time.process_time() - started)
    result: dict[str, Any] = {"turns": len(texts), "first question with a time, ms": 1e3 * first}
    rows = {"add of 100 texts": (np.array(added["without"]), np.array(added["with"]))}
    for kind, where in (("all questions", np.ones(len(questions), bool)), ("dated", dated), ("undated", ~dated)):
        rows[kind] = np.array(taken["without"])[where], np.array(taken["with"])[where]
    for name, (plain, timed) in rows.items():
        without, with_times = 1e3 * float(np.median(plain)), 1e3 * float(np.median(timed))
        result[name] = {"without, ms": without, "with, ms": with_times, "ratio": with_times / without}
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", help="path of locomo10.json (default: found in PAM_DATA_DIR)")
    parser.add_argument("--model", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--parsers", action="store_true", help="also measure the other installed parsers on the lists")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--name", default="real/times")
    parser.add_argument("--list", type=int, help="read only this list of tests/data, and say what was read wrongly")
    arguments = parser.parse_args()
    if arguments.list is not None:
        print(f"written to {report.write(arguments.name, one_list(arguments.list))}")
        return
    conversations = read(find(arguments.file, FILES, __doc__ or ""))
    embedder = load_embedder(arguments.model)
    result = {
        "seed": arguments.seed,
        "embedder": arguments.model or "all-MiniLM-L6-v2",
        "weight": WEIGHT,
        **lists(),
        "in_turns": in_turns(conversations),
        "costs": costs(conversations),
        "library_costs": library_costs(conversations, embedder),
        "recall": source(conversations, embedder, arguments.seed),
    }
    if arguments.parsers:
        result["other_parsers"] = compare(rows("time_expressions.jsonl"), rows("time_traps.jsonl"))
    print(json.dumps(result, indent=1))
    print(f"\nwritten to {report.write(arguments.name, result)}")


if __name__ == "__main__":
    main()
