"""Benchmarks of real data run at a small size, on data that is made up here."""

from __future__ import annotations

import numpy as np
import pytest
from benchmark_data import Embedder

from benchmarks.priors import fit_times
from benchmarks.real import code_memory, documents_cues, use
from benchmarks.real.dialogue import Conversation
from benchmarks.real.documents_pool import Pool
from benchmarks.real.use_tasks import Requests, Task, tuning

pytestmark = pytest.mark.slow


def test_the_weight_of_times_on_one_dialogue():
    said = ["the museum was quiet", "we painted a lake", "the dog slept", "the race was long", "rain fell all day"]
    turns = [
        {"id": f"D{session}:{at}", "speaker": "Ann", "session": session, "time": at, "text": f"Ann: {text}"}
        | {"date": f"1:56 pm on {session} May, 2023"}
        for session in range(1, 9)
        for at, text in enumerate(said)
    ]
    questions = [("What did we paint?", {"D8:1"}, 4), ("Was the race long?", {"D7:3"}, 4)]
    found = fit_times.measure(Conversation("made up", turns, questions), Embedder())
    right = found[0].mean(axis=(1, 2))
    assert found.keys() == {0, *fit_times.DAYS_OFF}
    assert right.shape == (len(fit_times.WEIGHTS),)
    assert right[-1] > right[0]


def test_cues_without_experience_among_documents():
    random = np.random.default_rng(0)
    titles = [f"Lake {chr(65 + at)}ville" for at in range(24)]
    texts = [f"{title} lies west of {other}." for title, other in zip(titles, titles[1:] + titles[:1], strict=True)]
    supporting = [[at, at + 1] for at in range(0, 24, 2)]
    looks, asked = random.standard_normal((24, 8)), random.standard_normal((12, 8))
    pool = Pool(titles, texts, ["?"] * 12, supporting, looks.astype(np.float32), asked.astype(np.float32))
    found = documents_cues.measure(pool, 0)
    assert found["cues"] == 6
    assert found["R@2/5/10"]["recall"][0] == 1.0
    assert found["R@2/5/10"]["recall without mentions"][0] < 1.0


def test_code_memory_finds_the_files_of_repeated_messages():
    files = [f"src/{name}.py" for name in ("wire", "backoff", "invoice", "rates")]
    messages = [("retry the connection", [0, 1]), ("round the tax", [2, 3])] * 4
    texts = [text for text, _ in messages]
    commits = Requests(texts, Embedder().encode(texts), [used for _, used in messages])
    vectors = Embedder().encode(files)
    task = Task("made up", files, vectors, commits, commits, np.full(8, -1), np.ones(4, bool))
    found = code_memory.History(task, commits, np.arange(4, 8), {})
    scores, _ = code_memory.ours(found, vectors)
    assert [set(np.argsort(-row)[:2].tolist()) for row in scores] == [{0, 1}, {2, 3}] * 2


def test_a_task_of_use_reports_the_library_beside_the_baselines():
    random = np.random.default_rng(0)
    items = [f"tool {at} for topic {at}" for at in range(12)]
    topics = random.integers(0, 12, 140)
    texts = [f"request about topic {topic} number {at}" for at, topic in enumerate(topics)]
    requests = Requests(texts, Embedder().encode(texts), [[int(topic)] for topic in topics])
    past, tests = requests.take(np.arange(120)), requests.take(np.arange(120, 140))
    task = Task("made up", items, Embedder().encode(items), past, tests, np.full(20, -1), np.ones(12, bool))
    found = use.run(task, {"priors": "without", "seed": 0, "fit": True})
    ours, gain = found["400 tests"]["mixture"]["R@5"], found["400 tests, gain of the mixture"]["popularity"]["R@5"]
    assert ours["mean"] > 0.9
    assert 0 < gain["low"] <= gain["mean"] <= gain["high"]
    assert gain["mean"] == pytest.approx(ours["mean"] - found["400 tests"]["popularity"]["R@5"]["mean"])
    assert 0 <= found["calibration"]["calibration error"] <= 1


@pytest.mark.parametrize("count", [0, 1, 4])
def test_a_task_with_too_little_experience_says_so(count):
    texts = [f"request {at}" for at in range(count)]
    requests = Requests(texts, np.ones((count, 4), np.float32), [[at] for at in range(count)])
    items = [f"item {at}" for at in range(5)]
    task = Task("made up", items, np.ones((5, 4), np.float32), requests, requests, np.full(count, -1), np.ones(5, bool))
    with pytest.raises(SystemExit, match=f"made up has {count} requests. Expected"):
        tuning(task, "judge")
