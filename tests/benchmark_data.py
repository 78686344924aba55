"""Small made-up data in the files that the benchmarks of real data read, and an embedder without a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

PLACES = ("museum", "harbour", "bakery", "library", "theatre", "garden", "station", "castle", "market", "bridge")
DEEDS = ("painted", "visited", "photographed", "described", "missed", "found")


class Embedder:
    """Embeds a text by its words."""

    def encode(self, texts: list[str], **_: object) -> np.ndarray:
        vectors = np.zeros((len(texts), 64), np.float32)
        for row, text in zip(vectors, texts, strict=True):
            for word in text.lower().strip("?.").split():
                row[sum(map(ord, word)) % 64] += 1
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1)


def write(folder: Path) -> Path:
    """Writes all data sets to a folder; returns it as a value of PAM_DATA_DIR."""
    _dialogues(folder / "locomo")
    _documents(folder / "documents")
    for task, name in (("toollens", _tool), ("code-flask", _file)):
        _use(folder / "use" / task, [name(at) for at in range(16)])
    _walks(folder / "wikispeedia")
    _ratings(folder / "ml-100k")
    return folder


def _dialogues(folder: Path) -> None:
    found = []
    for dialogue in range(5):
        talk: dict[str, Any] = {}
        asked = []
        for session in range(1, 6):
            talk[f"session_{session}_date_time"] = f"1:56 pm on {session + dialogue} May, 2023"
            talk[f"session_{session}"] = []
            for at in range(6):
                place, deed = PLACES[(session + at * 2 + dialogue) % 10], DEEDS[(at + session) % 6]
                turn = {"speaker": ("Ann", "Ben")[at % 2], "dia_id": f"D{session}:{at + 1}"}
                talk[f"session_{session}"].append({**turn, "text": f"yesterday we {deed} the {place}, number {at}"})
                if at < 3:
                    when = f" on {session + dialogue - 1} May 2023" if at else ""
                    question = f"Who {deed} the {place}{when}?"
                    asked.append(
                        {"question": question, "evidence": [turn["dia_id"]], "category": 1 + (session + at) % 4}
                    )
        found.append({"sample_id": f"made up {dialogue}", "conversation": talk, "qa": asked})
    folder.mkdir(parents=True)
    (folder / "locomo5.json").write_text(json.dumps(found))


def _documents(folder: Path) -> None:
    for at, name in enumerate(("hotpot", "2wiki", "musique")):
        titles = [f"{place.title()} of {chr(65 + at)}ville" for place in PLACES]
        passages = [
            {"id": title, "title": title, "text": f"The {title} lies west of the {other}."}
            for title, other in zip(titles, titles[1:] + titles[:1], strict=True)
        ]
        rows = [
            {
                "id": str(row),
                "question": f"What lies west of what the {titles[row]} looks at?",
                "type": "bridge",
                "supporting": [titles[row], titles[(row + 1) % 10]],
                "passages": [passages[(row + step) % 10] for step in range(4)],
            }
            for row in range(10)
        ]
        _lines(folder / f"{name}.jsonl", rows)


def _tool(at: int) -> str:
    return f"category_name:Travel, tool_name:{PLACES[at % 10].title()} {at}, api_description:plans visits of kind {at}"


def _file(at: int) -> str:
    return f"src/{PLACES[at % 10]}{at}.py\ndef visit{at}(): ..."


def _use(folder: Path, texts: list[str]) -> None:
    random = np.random.default_rng(0)
    _lines(folder / "memories.jsonl", [{"id": f"m{at}", "text": text} for at, text in enumerate(texts)])
    rows = []
    for time in range(240):
        topic = int(random.integers(16))
        used = sorted({f"m{topic}", f"m{(topic + 1 + time % 2) % 16}"})
        rows.append({"time": time, "cue": f"visit of kind {topic} to the {PLACES[topic % 10]}, {time}", "used": used})
    _lines(folder / "experience.jsonl", rows[:200])
    _lines(folder / "test.jsonl", rows[200:])


def _walks(folder: Path) -> None:
    random = np.random.default_rng(0)
    titles = [f"{place}_{at}" for at in range(6) for place in PLACES]
    folder.mkdir(parents=True)
    (folder / "articles.tsv").write_text("# made up\n\nArticle_Name\n" + "".join(f"{one}\n" for one in titles))
    lines = []
    for walk in range(300):
        start = int(random.integers(60))
        clicks = ";".join(titles[(start + step * (1 + walk % 2)) % 60] for step in range(5))
        lines.append(f"ip\t{walk}\t1\t{clicks}\t{titles[0]}\trestart\n")
    (folder / "paths_unfinished.tsv").write_text("# made up\n" + "".join(lines))


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _ratings(folder: Path) -> None:
    random = np.random.default_rng(0)
    folder.mkdir(parents=True)
    films = [f"{at}\t{PLACES[at % 10].title()} {at}\t{1950 + at}\tDrama" for at in range(60)]
    (folder / "ml-100k.item").write_text("\n".join(["item_id:token\tmovie_title\trelease_year\tclass", *films]) + "\n")
    rows = [
        f"{person}\t{(first + step * 2) % 60}\t{3 + step % 3}\t{person * 100 + step}"
        for person, first in enumerate(random.integers(0, 60, 120).tolist())
        for step in range(12)
    ]
    (folder / "ml-100k.inter").write_text("\n".join(["user_id:token\titem_id\trating\ttimestamp", *rows]) + "\n")
