"""A synthetic dialogue, some hostile memories, and an explorer that shows them."""

from __future__ import annotations

import json
import os
import re
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import numpy as np
import pytest

from pam_retriever import FitConfig, PredictiveAssociativeIndex, Trajectory
from pam_retriever.explore import Explorer

DIALOGUE = Path(__file__).parent / "data" / "dialogue.jsonl"
DIM = 64
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium, or set CHROMIUM")
SCRIPT = '<script>document.title="taken"</script><img src=x onerror="document.title=\'taken\'">'
HOSTILE = f"{SCRIPT}\"' onload=alert(1) \u202e\x07".replace("\x07", "")
ARABIC = "متى وصل القطار إلى المدينة؟"


def embed(texts: list[str]) -> np.ndarray:
    """Returns a bag of hashed words: texts with common words are similar."""
    vectors = np.full((len(texts), DIM), 1e-3, np.float32)
    for row, text in zip(vectors, texts, strict=True):
        for word in re.findall(r"\w+", text.casefold()):
            row[zlib.crc32(word.encode()) % DIM] += 1
    return vectors


def turns() -> list[dict[str, str]]:
    """Returns the turns of the dialogue, in order."""
    return [json.loads(line) for line in DIALOGUE.read_text("utf-8").splitlines()]


def fill(index: PredictiveAssociativeIndex, fit: bool = True) -> PredictiveAssociativeIndex:
    """Adds the dialogue, session by session, and a session of hostile, long and right-to-left memories."""
    said = turns()
    times = [datetime.fromisoformat(turn["time"]) for turn in said]
    metadatas = [{"session": turn["session"], "speaker": turn["speaker"]} for turn in said]
    index.add(
        ids=[turn["id"] for turn in said], texts=[turn["text"] for turn in said], metadatas=metadatas, timestamps=times
    )
    for session in dict.fromkeys(turn["session"] for turn in said):
        index.observe(Trajectory(ids=[turn["id"] for turn in said if turn["session"] == session], id=session))
    odd = [HOSTILE, ARABIC, "long " * 5_000 + "end", "word" * 3_000]
    names = [HOSTILE, "عربي", "long", "w" * 300]
    index.add(ids=names, texts=odd, metadatas=[{HOSTILE: HOSTILE, "title": HOSTILE}, {}, {}, {}])
    index.observe(Trajectory(ids=names, id=HOSTILE))
    if fit:
        index.fit(window=3, config=FitConfig(hidden=32, passes=20), progress=False)
    return index


@contextmanager
def exploring(index: PredictiveAssociativeIndex, write: bool = False) -> Iterator[Explorer]:
    """Runs an explorer of an index in this process."""
    with index.explore(browser=False, write=write, wait=False) as explorer:
        yield explorer


def send(
    address: str, path: str, body: object = None, token: str | None = None, **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    """Returns status, content and headers of an answer; sends the token of the address by default."""
    base, _, own = address.partition("/?token=")
    request = Request(base + path, data=None if body is None else json.dumps(body).encode())
    sent = {"Authorization": f"Bearer {own if token is None else token}", "Host": urlsplit(base).netloc, **headers}
    for name, value in sent.items():
        request.add_header(name.replace("_", "-"), value)
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def fetch(address: str, path: str, body: object = None) -> dict[str, object]:
    """Returns a JSON answer that is not an error."""
    status, content, _ = send(address, path, body)
    assert status == 200, content
    return json.loads(content)
