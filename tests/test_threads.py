"""Concurrent queries of several threads get the same answers as sequential queries."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from engine_servers import NAMES, fresh_engine

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.store.sqlite.words import Tokenizer

THREADS, ROUNDS = 8, 60
WORDS = ["kettle", "boat", "harbour", "gull", "storm", "net", "tea", "wall"]
QUERIES = [f"which {word} and which {other}" for word in WORDS for other in WORDS]


@pytest.fixture(autouse=True)
def _threads_take_turns_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def in_threads(ask, questions, rounds=ROUNDS):
    """Returns the answers to ``questions`` from threads that begin together and repeat them."""
    begin = threading.Barrier(THREADS)

    def run(thread):
        mine = [questions[(thread + step) % len(questions)] for step in range(rounds)]
        begin.wait()
        return [(question, ask(question)) for question in mine]

    with ThreadPoolExecutor(THREADS) as pool:
        return [pair for pairs in pool.map(run, range(THREADS)) for pair in pairs]


def test_a_tokenizer_gives_each_thread_the_terms_of_its_own_text():
    tokenize = Tokenizer()
    alone = {query: tokenize(query) for query in QUERIES}
    for query, terms in in_threads(tokenize, QUERIES):
        assert terms == alone[query]


def filled(backend="exact"):
    texts = [f"{WORDS[n % 8]} {WORDS[(n // 8) % 8]} {n}" for n in range(64)]
    index = PredictiveAssociativeIndex(dim=8, backend=backend)
    vectors = np.random.default_rng(0).standard_normal((64, 8))
    ids = index.add(vectors, [f"m{n}" for n in range(64)], texts, [{"who": WORDS[n % 8]} for n in range(64)])
    index.observe(ids)
    return index


@pytest.mark.parametrize("backend", ["exact", *(pytest.param(kind, marks=pytest.mark.slow) for kind in NAMES)])
def test_threads_that_ask_with_words_get_their_own_answers(backend):
    index = filled(backend if backend == "exact" else fresh_engine(backend))

    def ask(query):
        hits = index.recall(np.ones(8), k=5, mode="hybrid", text=query)
        return [(hit.id, hit.score) for hit in hits]

    asked = QUERIES[::5]
    alone = {query: ask(query) for query in asked}
    for query, answer in in_threads(ask, asked, rounds=ROUNDS if backend == "exact" else 8):
        assert answer == alone[query]
    index.close()


class Memories:
    """Words of three memories, for a race of two threads.

    The thread "late" pauses after it has begun to read the lengths of the texts. The other thread sends a query; in the
    middle of its query it wakes "late", and waits until "late" has begun to convert the lengths.
    """

    words_version, last_row = 1, 3

    def __init__(self):
        self.began, self.go_on, self.halfway, self.end = (threading.Event() for _ in range(4))

    def lengths(self):
        lengths = np.array([10, 20, 300]).view(Lengths)
        if threading.current_thread().name == "late":
            self.began.set()
            self.go_on.wait(10)
            lengths.pause = self.pause
        return np.array([1, 2, 3]), lengths

    def pause(self):
        self.halfway.set()
        self.end.wait(10)

    def positions(self, term, column, most):
        self.go_on.set()
        self.halfway.wait(10)
        return np.array([1, 3]), np.array([1, 2])


class Lengths(np.ndarray):
    """An array whose conversion can pause."""

    pause = None

    def astype(self, *arguments, **options):
        if self.pause is not None:
            self.pause()
        return np.asarray(self).astype(*arguments, **options)


def test_a_lexicon_that_another_thread_brings_up_to_date_ranks_as_before():
    class Documents:
        memories = Memories()

    lexicon, memories = Lexicon(Documents()), Documents.memories
    late = threading.Thread(target=lambda: lexicon.best(["boat"], 1, None), name="late")
    late.start()
    assert memories.began.wait(10)
    # its text is short; without lengths 3 would be first, with two "boat"
    assert lexicon.best(["boat"], 1, None).tolist() == [1]
    assert memories.halfway.is_set()
    memories.end.set()
    late.join()


def test_threads_that_ask_while_words_change_see_them_as_they_are_or_were():
    index, stop = filled(), threading.Event()

    def change():
        while not stop.is_set():
            index.add(np.ones((1, 8)), ["new"], ["harbour harbour"])
            index.delete("new")

    def ask(query):
        return [hit.id for hit in index.recall(np.ones(8), k=3, mode="hybrid", text=query)]

    without = {query: ask(query) for query in QUERIES[:8]}
    index.add(np.ones((1, 8)), ["new"], ["harbour harbour"])
    with_new = {query: ask(query) for query in QUERIES[:8]}
    writer = threading.Thread(target=change)
    writer.start()
    try:
        for query, answer in in_threads(ask, QUERIES[:8], rounds=20):
            assert answer in (without[query], with_new[query])
    finally:
        stop.set()
        writer.join()
