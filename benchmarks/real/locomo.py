"""``python -m benchmarks.real.locomo``: find the turns that answer a question, in long dialogues.

LoCoMo (Maharana et al., ACL 2024; CC BY-NC 4.0, so it is not in this repository): download
``data/locomo10.json`` from https://github.com/snap-research/locomo and pass its path, or set
``PAM_DATA_DIR`` to its folder.

Each conversation is an index, each of its dated sessions a trajectory. Training never sees questions or evidence.
The library runs with its default settings, before ``fit`` and after it. Their weights, and the settings of every
baseline, were chosen on the first two conversations. So read the results on the other conversations, and the results of
"leave one out", which measures each conversation with the settings that are best on the rest.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.metrics import top
from benchmarks.real import peers, unlearned
from benchmarks.real.data import find, load_embedder
from benchmarks.real.dialogue import CATEGORIES, METRICS, Conversation, Scores, evaluate, interval, rank, read
from benchmarks.real.unlearned import BASES, Prepared
from pam_retriever import Channels, PredictiveAssociativeIndex

FILES = ("locomo10.json", "locomo5.json", "locomo/locomo10.json", "locomo/locomo5.json")
TUNED_ON = 2
DEPTH = 100
OURS, ABLATED, UNFITTED = "this library, default", "default, association off", "this library, before fit"
SPREAD_FROM = 21  # hits of a base: 20 that count, and the one after them, which does not
ADDED = (0.4, 0.8, 1.6, 3.2, 6.4)  # weights of the added association, relative to the base's best score
Judged = dict[str, dict[str, list[Scores]]]  # method -> setting -> one (Q, 6) per conversation


def embed(conversation: Conversation, embedder: Any) -> tuple[Any, Any, Any]:
    """Returns turns, three-turn windows and questions, at unit length."""
    texts = [turn["text"] for turn in conversation.turns]
    near = conversation.near(1)
    windows = ["\n".join(texts[n] for n in sorted({at, *np.flatnonzero(near[at])})) for at in range(len(texts))]
    questions = [question for question, _, _ in conversation.questions]
    return tuple(
        embedder.encode(part, normalize_embeddings=True, show_progress_bar=False)
        for part in (texts, windows, questions)
    )


def index_of(
    conversation: Conversation, vectors: Any, times: Sequence[datetime] | None = None
) -> PredictiveAssociativeIndex:
    """Returns one conversation as an index that was not fitted; each session is a trajectory."""
    turns = conversation.turns
    index = PredictiveAssociativeIndex(dim=vectors.shape[1])
    ids, texts = [turn["id"] for turn in turns], [turn["text"] for turn in turns]
    metadatas = [{key: turn[key] for key in ("speaker", "session", "time")} for turn in turns]
    index.add(vectors, ids, texts, metadatas, timestamps=times)
    for session in np.unique(conversation.sessions):
        index.observe([ids[at] for at in np.flatnonzero(conversation.sessions == session)])
    return index


def build(prepared: Prepared, seed: int, cache: Path | None) -> tuple[PredictiveAssociativeIndex, dict[str, float]]:
    """Returns one conversation as a fitted index, and the time to build it; None for an index from an earlier run."""
    folder = None if cache is None else cache / f"{prepared.conversation.name}-{seed}"
    if folder is not None and folder.exists():
        return PredictiveAssociativeIndex.load(folder), {}
    started, used = time.perf_counter(), time.process_time()
    index = index_of(prepared.conversation, prepared.turns)
    index.fit(seed=seed)
    seconds = time.perf_counter() - started
    cpu = time.process_time() - used  # excludes waiting on a shared machine
    if folder is not None:
        index.save(folder)
    return index, {"add_and_fit_seconds": seconds, "add_and_fit_cpu_seconds": cpu}


def ask(index: PredictiveAssociativeIndex, prepared: Prepared, **options: Any) -> Any:
    """Returns (Q, DEPTH) rankings; -1 fills a ranking after its end."""
    position = {turn["id"]: at for at, turn in enumerate(prepared.conversation.turns)}
    answers = index.recall_many(prepared.questions, k=DEPTH, **options)
    return np.array([[position[hit.id] for hit in hits] + [-1] * (DEPTH - len(hits)) for hits in answers])


def expanded(index: PredictiveAssociativeIndex, prepared: Prepared, scores: Scores) -> Scores:
    """Returns the shares of ``index.expand``, (Q, N), for the best hits of a base method."""
    ids = [turn["id"] for turn in prepared.conversation.turns]
    position = {id: at for at, id in enumerate(ids)}
    best = top(scores, SPREAD_FROM)
    found = [
        {ids[at]: float(row[at]) for at in rows if at >= 0} for row, rows in zip(scores, best.tolist(), strict=True)
    ]
    shares = np.zeros_like(scores)
    for at, brought in enumerate(index.expand(found, k=None)):
        assert isinstance(brought, dict)
        shares[at, [position[id] for id in brought]] = list(brought.values())
    return shares


def latency(index: PredictiveAssociativeIndex, prepared: Prepared) -> dict[str, float]:
    """Returns the milliseconds of single queries, without embedding."""
    taken, used = [], []
    for vector, (text, _, _) in zip(prepared.questions, prepared.conversation.questions, strict=True):
        started, before = time.perf_counter(), time.process_time()
        index.recall(vector, k=10, text=text)
        taken.append(1e3 * (time.perf_counter() - started))
        used.append(1e3 * (time.process_time() - before))
    wall = {f"p{share}_milliseconds": float(np.percentile(taken, share)) for share in (50, 95)}
    return {**wall, "p50_cpu_milliseconds": float(np.median(used))}


def cases(prepared: Prepared, rankings: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the ids of evidence turns that the association channels moved into the first ten, or out of them.

    ``first_ten_of`` names the other methods that ranked the turn among their first ten.
    """
    found = []
    ids = [turn["id"] for turn in prepared.conversation.turns]
    for at, (_, evidence, kind) in enumerate(prepared.conversation.questions):
        for turn in sorted(evidence):
            positions = {name: _position(ranked[at], ids.index(turn)) for name, ranked in rankings.items()}
            if (positions[OURS] < 10) != (positions[ABLATED] < 10):
                others = [name for name, position in positions.items() if position < 10 and name not in (OURS, ABLATED)]
                case = {"question": at, "category": CATEGORIES[kind], "turn": turn}
                found.append({**case, "with": positions[OURS], "without": positions[ABLATED], "first_ten_of": others})
    return found


def _position(ranked: Any, turn: int) -> int:
    """Returns the position of a turn in a ranking, from 0; the ranking's length if it is not there."""
    found = np.flatnonzero(ranked == turn)
    return int(found[0]) if len(found) else len(ranked)


def measure(
    prepared: Prepared, index: PredictiveAssociativeIndex, reranker: Any
) -> tuple[dict[str, dict[str, Scores]], dict[str, Any]]:
    """Runs every method on one conversation: method -> setting -> (Q, 6); also query times and cases."""
    conversation = prepared.conversation
    judged = {
        name: {setting: evaluate(top(score(prepared), DEPTH), conversation) for setting, score in family.items()}
        for name, family in unlearned.families().items()
    }
    rankings = {"engram-search": peers.engram(prepared), "copresence": peers.copresence(prepared)}
    if reranker is not None:
        rankings["engram-search, reranked"] = peers.engram(prepared, reranker)
    questions = [question for question, _, _ in conversation.questions]
    rankings[OURS] = ask(index, prepared, texts=questions)
    rankings[ABLATED] = ask(index, prepared, texts=questions, channels=Channels(similarity=1))
    rankings[UNFITTED] = ask(index_of(conversation, prepared.turns), prepared, texts=questions)
    rankings["vector alone, hybrid"] = ask(index, prepared, mode="hybrid")
    for name, ranking in rankings.items():
        judged[name] = {"": evaluate(ranking[:, :DEPTH], conversation)}
    rankings |= {"dense cosine": rank(prepared.cosine), "BM25 (bm25s)": rank(prepared.bm25())}
    return judged, {**latency(index, prepared), "cases": cases(prepared, rankings)}


def add_association(judged: Judged, every: list[Prepared], indexes: list[PredictiveAssociativeIndex]) -> None:
    """Adds association to the bases, with the settings that any split chose for a base."""
    for base in BASES:
        for setting in sorted({choose(judged[base], split) for split in _splits(len(every))}):
            score = unlearned.families()[base][setting]
            scores = [score(prepared) for prepared in every]
            added = [
                of.max(axis=1, keepdims=True) * expanded(index, prepared, of)
                for index, prepared, of in zip(indexes, every, scores, strict=True)
            ]
            for weight in ADDED:
                judged.setdefault(f"{base} + association", {})[f"{setting} + {weight}"] = [
                    evaluate(top(of + weight * more, DEPTH), prepared.conversation)
                    for of, more, prepared in zip(scores, added, every, strict=True)
                ]


def _splits(count: int) -> list[list[int]]:
    """Returns the conversations for choosing settings: the first two, then all but one."""
    return [list(range(TUNED_ON)), *([other for other in range(count) if other != at] for at in range(count))]


def choose(settings: dict[str, list[Scores]], on: list[int]) -> str:
    """Returns the setting with the best mean of R@5, R@10 and R@20 on some conversations."""
    return max(settings, key=lambda name: np.concatenate([settings[name][at] for at in on])[:, :3].mean())


def gain(ours: Scores, other: Scores) -> dict[str, list[float]]:
    """Returns the mean difference of each metric and its 95 % interval, over questions."""
    low, high = interval(ours - other)
    mean = (ours - other).mean(axis=0)
    return {name: [float(mean[at]), float(low[at]), float(high[at])] for at, name in enumerate(METRICS)}


def summarise(judged: Judged, conversations: list[Conversation]) -> dict[str, Any]:
    """Returns tables of the reported conversations, of all with leave-one-out settings, and of the categories."""
    every = range(len(conversations))
    tuning, reported = list(every)[:TUNED_ON], list(every)[TUNED_ON:]
    chosen = {name: choose(settings, tuning) for name, settings in judged.items()}
    shown = {name: np.concatenate([judged[name][key][at] for at in reported]) for name, key in chosen.items()}
    tuned = {name: np.concatenate([judged[name][key][at] for at in tuning]) for name, key in chosen.items()}
    left = {
        name: np.concatenate([settings[choose(settings, [o for o in every if o != at])][at] for at in every])
        for name, settings in judged.items()
    }
    baselines = [name for name in unlearned.families() if name in judged] + [n for n in judged if "engram" in n]
    best = max(baselines, key=lambda name: tuned[name][:, :3].mean())
    category = np.array([kind for at in reported for _, _, kind in conversations[at].questions])

    def rows(table: dict[str, Scores]) -> dict[str, dict[str, float]]:
        return {name: dict(zip(METRICS, values.mean(axis=0).tolist(), strict=True)) for name, values in table.items()}

    intervals = {name: [ends.tolist() for ends in interval(values)] for name, values in shown.items()}
    return {
        "metrics": METRICS,
        "settings": chosen,
        "reported": rows(shown),
        "reported_intervals": intervals,
        "tuned_on": rows(tuned),
        "leave_one_out": rows(left),
        "by_category": {
            CATEGORIES[kind]: rows({name: values[category == kind] for name, values in shown.items()})
            for kind in sorted(CATEGORIES)
        },
        "questions": {
            "reported": len(category),
            "by_category": {CATEGORIES[k]: int((category == k).sum()) for k in CATEGORIES},
        },
        "best_unlearned": best,
        "gain_over_each": {name: gain(shown[OURS], shown[name]) for name in [*baselines, "copresence", ABLATED]},
        "gain_of_fit": gain(shown[OURS], shown[UNFITTED]),
        "gain_before_fit_over_best_unlearned": gain(shown[UNFITTED], shown[best]),
        "gain_over_best_unlearned": gain(shown[OURS], shown[best]),
        "gain_over_best_unlearned_leave_one_out": gain(left[OURS], left[best]),
        "gain_of_association_in_default": gain(shown[OURS], shown[ABLATED]),
        "gain_of_association_in_default_leave_one_out": gain(left[OURS], left[ABLATED]),
        "gain_on_bases": {base: gain(shown[f"{base} + association"], shown[base]) for base in BASES},
        "gain_on_bases_leave_one_out": {base: gain(left[f"{base} + association"], left[base]) for base in BASES},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", help="path of locomo10.json (default: found in PAM_DATA_DIR)")
    parser.add_argument("--model", help="a sentence-transformers model (default: all-MiniLM-L6-v2)")
    parser.add_argument("--embeddings", type=Path, help="an .npz file that caches the embeddings between runs")
    parser.add_argument("--indexes", type=Path, help="a folder that caches the fitted indexes between runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--export", type=Path, help="only write the turns to this JSONL file, for the command line")
    parser.add_argument("--name", default="real/locomo")
    arguments = parser.parse_args()
    conversations = read(find(arguments.file, FILES, __doc__ or ""))
    if arguments.export:
        export(conversations, arguments.export)
        return
    reranker, why = peers.load_engram_reranker()
    judged: Judged = {}
    costs: dict[str, Any] = {}
    indexes = []
    every = prepare(conversations, arguments.model, arguments.embeddings)
    for prepared in every:
        index, taken = build(prepared, arguments.seed, arguments.indexes)
        found, spent = measure(prepared, index, reranker)
        indexes.append(index)
        costs[prepared.conversation.name] = {**taken, **spent}
        for method, settings in found.items():
            for setting, values in settings.items():
                judged.setdefault(method, {}).setdefault(setting, []).append(values)
        print(f"{prepared.conversation.name}: {len(prepared.turns)} turns, {taken or 'fitted before'}", flush=True)
    add_association(judged, every, indexes)
    summary = summarise(judged, conversations)
    for part in ("reported", "leave_one_out"):
        print(f"\n{part}\n{report.table(list(METRICS), summary[part], digits=3)}")
    print(json.dumps({key: value for key, value in summary.items() if key.startswith("gain_of")}, indent=1))
    result = {
        "seed": arguments.seed,
        "embedder": arguments.model or "all-MiniLM-L6-v2",
        "engram_reranker_not_loaded": why,
        "fitted_before": not any("add_and_fit_seconds" in cost for cost in costs.values()),
        "costs": costs,
        **summary,
    }
    print(f"\nwritten to {report.write(arguments.name, result)}")


def prepare(conversations: list[Conversation], model: str | None, cache: Path | None) -> list[Prepared]:
    """Returns the conversations with their embeddings; reads them from the file ``cache`` if it exists."""
    if cache is not None and cache.exists():
        with np.load(cache) as file:
            parts = [tuple(file[f"{kind}{at}"] for kind in "twq") for at in range(len(conversations))]
    else:
        embedder = load_embedder(model)
        parts = [embed(conversation, embedder) for conversation in conversations]
        if cache is not None:
            np.savez(
                cache,
                **{f"{kind}{at}": p for at, part in enumerate(parts) for kind, p in zip("twq", part, strict=True)},
            )
    return [Prepared(conversation, *part) for conversation, part in zip(conversations, parts, strict=True)]


def export(conversations: list[Conversation], path: Path) -> None:
    """Writes the turns as JSON lines; ids and sessions have the name of their conversation."""
    lines = [
        json.dumps({**turn, "id": f"{c.name}/{turn['id']}", "session": f"{c.name}/{turn['session']}"})
        for c in conversations
        for turn in c.turns
    ]
    path.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
