"""Mentions as a source of recall agree with a plain loop over texts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_mentions import World

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.mentions.edges import MENTIONS, PRIOR, WAYS, Edges, Mentioned
from pam_retriever.mentions.folding import words
from pam_retriever.mentions.limits import BEYOND, CEILING, _with_the_same_name, bounded
from pam_retriever.mentions.source import ANY_WORD, FEW_TEXTS, LEFT, POWER, TEMPERATURE, MentionSource
from pam_retriever.types import Bools, Float32, Int64

LOOKS = (0.8, 0.5, 0.3, 0.2, 0.1, 0.0)


class Question:
    """A question with given scores; its terms are its words."""

    def __init__(self, world: World, text: str | None, scores: dict[str, float], forbidden: str = "") -> None:
        self.text = text
        self._rows = world.memories.rows_of(list(scores))
        self._scores = {self._rows[id]: score for id, score in scores.items()}
        self._forbidden = [self._rows[id] for id in forbidden]
        texts = world.database.connection.fetch("SELECT row, text FROM memories")
        self._words = {row: set(words(text or "")) for row, text in texts}
        self.terms = sorted(set(words(text or "")))
        self.term_weights: Float32 = np.ones(len(self.terms), np.float32)

    def part(self, said: str, rows: Int64) -> Float32:
        terms = sorted(set(words(said)))
        held = [[term in self._words[row] for term in terms] for row in rows.tolist()]
        return np.array(held, np.float32).reshape(len(rows), len(terms)).sum(axis=1) / max(len(terms), 1)

    def scores(self, rows: Int64) -> Float32:
        return np.array([self._scores[row] for row in rows.tolist()], np.float32)

    def holds(self, rows: Int64) -> Bools:
        held = [[term in self._words[row] for row in rows.tolist()] for term in self.terms]
        return np.array(held, bool).reshape(len(self.terms), len(rows))

    def allowed(self, rows: Int64) -> Bools:
        return ~np.isin(rows, self._forbidden)


def _world(*memories: tuple[str, str | None, str | None]) -> World:
    world = World()
    world.add(*((id, text, {"title": title} if title else {}) for id, title, text in memories))
    world.add(*((f"filler {at}", "nothing of note", {}) for at in range(20)))
    return world


def _ask(world: World, question: Question, ids: str) -> dict[str, dict[str, float]]:
    found = _mentioned(world, question, ids)
    names = {row: id for id, row in world.memories.rows_of([*"abcdef"]).items()}
    return {
        names[row]: {way: float(value) for way, value in zip(WAYS, values, strict=True) if value}
        for row, values in zip(found.rows.tolist(), found.features, strict=True)
    }


def _mentioned(world: World, question: Question, ids: str) -> Mentioned:
    rows = np.array([world.memories.rows_of([id])[id] for id in ids], np.int64)
    return MentionSource(world.store).score(question, rows, question.scores(rows))


def _idf(texts: int, count: int) -> float:
    return min(1.0, max(0.0, math.log((texts - count + 0.5) / (count + 0.5)) / math.log(texts + 1.5)))


CHAIN = (
    ("a", "Kiss and Tell", "It stars Shirley Temple."),
    ("b", "Shirley Temple", "An actress and ambassador. Born in Santa Monica."),
    ("c", "Santa Monica", "A city."),
    ("d", "Prague", "Shirley Temple was there."),
)


def test_a_chain_of_names() -> None:
    world = _world(*CHAIN)
    question = Question(world, "which ambassador was in Kiss and Tell", dict(zip("abcd", LOOKS, strict=False)))
    found = _ask(world, question, "a")
    one, two = _idf(24, 0), _idf(24, 2)
    assert found["a"]["asked"] == pytest.approx(one, rel=1e-5)  # no text mentions this name
    strength = (0.8 + PRIOR["asked"] * one) ** POWER
    left = 3 / 7  # only the second text has "ambassador", "and" and "in"
    assert found["b"]["names"] == pytest.approx(strength * two * (1 + LEFT * left), rel=1e-5)
    assert found["c"]["second step"] > 0 and "names" not in found["c"]
    assert "d" not in found or "names" not in found["d"]


def test_who_names_it_and_who_shares_a_phrase() -> None:
    """Recall finds memories that name a hit, and memories that share a phrase with it."""
    world = _world(*CHAIN)
    scores = dict(zip("abcd", LOOKS, strict=False))
    found = _ask(world, Question(world, None, scores), "b")
    assert found["a"]["named by"] == found["d"]["named by"] == pytest.approx(0.5**POWER * _idf(24, 2), rel=1e-5)
    shared = _ask(world, Question(world, None, scores), "a")["d"]
    assert shared["shares"] == pytest.approx(0.8**POWER * _idf(24, 2), rel=1e-5)
    # a phrase that is also in the question adds nothing
    assert "shares" not in _ask(world, Question(world, "when was Shirley Temple born", scores), "a").get("d", {})


def test_memories_that_may_not_be_found_neither_come_nor_lead_on() -> None:
    """A memory that a filter excludes is neither a hit nor a step to other memories."""
    world = _world(*CHAIN)
    question = Question(world, "Kiss and Tell", dict(zip("abcd", LOOKS, strict=False)), forbidden="b")
    assert {"b", "c"}.isdisjoint(_ask(world, question, "a"))


def test_what_may_not_be_found_shares_nothing() -> None:
    """A name that only one allowed memory has is its own; a phrase in two allowed texts joins only these."""
    world = _world(
        ("a", "Kiss", "Natalie Wood."),
        ("b", "Kiss", "Natalie Wood."),
        ("c", "Prague", "Kiss! Natalie Wood."),
        ("d", "Vienna", "Natalie Wood."),
    )
    scores = dict(zip("abcd", LOOKS, strict=False))
    every = _ask(world, Question(world, None, scores), "a")["c"]
    some = _ask(world, Question(world, None, scores, forbidden="b"), "a")["c"]
    strength = 0.8**POWER
    assert every["named by"] == pytest.approx(strength * _idf(24, 1) / 2, rel=1e-5)
    assert some["named by"] == pytest.approx(strength * _idf(24, 1), rel=1e-5)
    assert every["shares"] == pytest.approx(strength * _idf(24, 4) / math.sqrt(3), rel=1e-5)
    assert some["shares"] == pytest.approx(strength * _idf(24, 4) / math.sqrt(2), rel=1e-5)
    assert _ask(world, Question(world, None, scores, forbidden="ab"), "a")["c"] == some  # the memory that asks counts


def test_nothing_that_may_be_found_mentions_nothing() -> None:
    world = _world(*CHAIN)
    question = Question(world, "nothing", dict(zip("abcd", LOOKS, strict=False)), forbidden="abcd")
    none = np.empty(0, np.int64)
    assert len(MentionSource(world.store).score(question, none, none.astype(np.float32)).rows) == 0


def test_the_passage_of_a_title_that_fits_best_gets_most() -> None:
    """Of several memories with a name, the best match of the question gets the largest share of the name's weight."""
    world = _world(("a", "Kiss", "Shirley Temple."), ("b", "Shirley Temple", "x"), ("c", "Shirley Temple", "y"))
    found = _ask(world, Question(world, None, {"a": 0.5, "b": 0.3, "c": 0.1}), "a")
    assert found["c"]["names"] / found["b"]["names"] == pytest.approx(math.exp(-0.2 / TEMPERATURE), rel=1e-4)
    whole = found["b"]["names"] + found["c"]["names"]
    assert whole == pytest.approx(0.5**POWER * _idf(23, 1), rel=1e-4)


def test_a_name_in_half_of_the_texts_counts_nothing() -> None:
    world = World()
    world.add(("a", "a game", {"title": "First"}), ("b", None, {"title": "Game"}), ("c", "no", {}))
    question = Question(world, "a game", {"a": 0.5, "b": 0.3, "c": 0.1})
    assert _ask(world, question, "a") == {}


@pytest.mark.parametrize(
    ("title", "said", "question", "weight"),
    [
        ("clock(3)", "clock", "tune the clock", ANY_WORD),
        ("Clock", "Clock", "what does Clock do", 1),
        ("clock(3)", "clock(3)", "what does clock(3) do", 1),
        ("wall clock", "wall clock", "which wall clock", 1),
        ("時計", "時計", "時計の音", 1),
        ("घड़ी", "घड़ी", "घड़ी कहाँ है", 1),
        ("საათი", "საათი", "სად არის საათი", 1),
        ("Clock", "clock", "clock", 1),
        ("Clock", "clock", " clock?", 1),
        ("Clock", "clock", "clock clock", ANY_WORD),
    ],
)
@pytest.mark.parametrize("texts", [FEW_TEXTS, FEW_TEXTS + 1])
def test_a_single_word_in_lower_case_may_be_any_word(
    title: str, said: str, question: str, weight: float, texts: int
) -> None:
    """Unless few texts hold it."""
    world = _world(("a", title, "x"))
    world.add(*((f"said {at}", f"a {said}", {}) for at in range(texts)))
    looks = {"a": 0.5, **{f"said {at}": 0.1 for at in range(texts)}}
    found = _mentioned(world, Question(world, question, looks), "a")
    asked = found.of(np.array([world.memories.rows_of(["a"])["a"]], np.int64))[0, WAYS.index("asked")]
    expected = weight if texts > FEW_TEXTS else 1
    assert asked == pytest.approx(expected * _idf(21 + texts, texts), rel=1e-5)


@pytest.mark.parametrize("looks", [(0.8, 0.5, 0.3, 0.2), (0.3, 0.9, 0.1, 0.7), (0.1, 0.1, -0.2, 0.0)])
@pytest.mark.parametrize("text", ["which ambassador was in Kiss and Tell", "Prague", "x"])
def test_a_mention_lifts_a_memory_to_a_part_of_the_score_of_its_source(looks: tuple[float, ...], text: str) -> None:
    world = _world(*CHAIN)
    question = Question(world, text, dict(zip("abcd", looks, strict=True)))
    found = _mentioned(world, question, "abd")
    less = bounded(found, question)
    rows = world.memories.rows_of([*"abcd"])
    own = dict(zip((rows[id] for id in "abcd"), looks, strict=True))
    weights = [MENTIONS * PRIOR[way] for way in WAYS]
    for row, asked in zip(found.rows.tolist(), found.features[:, 0].tolist(), strict=True):
        own[row] += weights[0] * asked
    assert np.array_equal(less.rows, found.rows)
    assert np.array_equal(less.sources, found.sources)
    assert np.array_equal(less.features[:, 0], found.features[:, 0])
    for row, before, after, sources in zip(
        found.rows.tolist(), found.features.tolist(), less.features.tolist(), found.sources.tolist(), strict=True
    ):
        added, left = (sum(map(float.__mul__, weights[1:], one[1:])) for one in (before, after))
        best = max([0.0, *(own[source] for source in sources[1:] if source >= 0)])
        room = max(CEILING * best - own[row], 0)
        assert left == pytest.approx(min(added, room) + BEYOND * max(added - room, 0), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("way", WAYS[1:])
def test_each_way_lifts_to_nine_tenths_of_the_best_source_and_a_tenth_of_more_counts(way: str) -> None:
    world = _world(*CHAIN)
    rows = world.memories.rows_of([*"abcd"])
    features, sources = np.zeros((4, len(WAYS)), np.float32), np.full((4, len(WAYS)), -1)
    features[:3, WAYS.index(way)], features[1, 0], features[3, 0] = [3.0, 3.0, 0.01], 0.2, 0.1
    sources[:3, WAYS.index(way)] = rows["d"]
    found = Mentioned(np.array([rows[id] for id in "abcd"]), features, sources, np.zeros_like(sources))
    less = bounded(found, Question(world, "x", {"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.8}))
    weight = MENTIONS * PRIOR[way]
    for at, own in enumerate([0.1, 0.1 + 0.2 * MENTIONS * PRIOR["asked"], 0.1]):
        added, room = weight * float(features[at, WAYS.index(way)]), 0.9 * (0.8 + 0.1 * MENTIONS) - own
        expected = added if added <= room else room + 0.1 * (added - room)
        assert weight * float(less.features[at, WAYS.index(way)]) == pytest.approx(expected, rel=1e-4)
    assert np.array_equal(less.features[3], features[3])  # only the question names it


def test_the_edges_by_the_same_name_to_the_same_memory_are_found() -> None:
    random = np.random.default_rng(0)
    for _ in range(200):
        pairs = random.permutation(30)[: random.integers(1, 12)]  # each name leads to a memory once
        asked = Edges(np.full(len(pairs), -1), 7 + pairs // 5, 20 + 3 * (pairs % 5), np.ones(len(pairs), np.float32))
        count = int(random.integers(0, 20))
        columns = random.integers(1, 9, count), random.integers(5, 15, count), random.integers(18, 36, count)
        named = Edges(*columns, np.ones(count, np.float32))
        at, sources = _with_the_same_name(asked, named)
        expected = [
            (one, int(source))
            for source, number, target in zip(*columns, strict=True)
            for one in range(len(pairs))
            if (asked.numbers[one], asked.targets[one]) == (number, target)
        ]
        assert list(zip(at.tolist(), sources.tolist(), strict=True)) == expected


def test_what_only_the_question_names_has_no_bound() -> None:
    world = _world(("a", "Oslo", "a city"), ("b", "Bergen", "a city"))
    question = Question(world, "Oslo", {"a": 0.1, "b": 0.8})
    found = _mentioned(world, question, "b")
    assert np.array_equal(bounded(found, question).features, found.features)
    assert found.features[:, 0].tolist() > [0]


@pytest.mark.parametrize("question", ["oslo", "Oslo", "OSLO?", "what is the weather in oslo"])
def test_a_question_that_is_a_name_or_has_a_rare_one_finds_what_has_it(question: str) -> None:
    """Also in lower case, and before a text that holds the word."""
    index = PredictiveAssociativeIndex(dim=3)
    index.add([[1, 0, 0]], ["city"], ["The capital of Norway lies on a fjord."], [{"title": "Oslo"}])
    index.add([[1, 0, 0]], ["other"], ["Tromsø is far from Oslo."], [{"title": "Tromsø"}])
    index.add([[0, 0, 1]] * 20, [f"other {at}" for at in range(20)], ["nothing of note"] * 20)
    assert index.recall([1, 0, 0], text=question, k=2).ids == ["city", "other"]


def _counted(weight: float, of_source: float, own: float) -> float:
    """What counts of a name in the question if a better text holds it, and all other words of the question."""
    added, room = MENTIONS * weight, max(CEILING * of_source - own, 0)
    return (min(added, room) + BEYOND * max(added - room, 0)) / MENTIONS


@pytest.mark.parametrize(
    ("part", "says"),
    [(0, "It stars Ann."), (1 / 3, "Its director is Ann."), (1, "The director was born here.")],
)
@pytest.mark.parametrize("own", [0.2, 0.7, 0.9])
def test_a_better_text_limits_a_name_of_the_question_as_far_as_it_has_the_other_words(
    part: float, says: str, own: float
) -> None:
    """A text without the name limits nothing."""
    world = _world(("a", "Kiss and Tell", "A film."), ("b", None, f"{says} Kiss and Tell!"), ("c", None, says))
    question = Question(world, "director born here Kiss and Tell", {"a": own, "b": 0.8, "c": 0.9})
    found = _ask(world, question, "abc")["a"]["asked"]
    weight = _idf(23, 1)
    limit = _counted(weight, 0.8, own) if own < 0.8 else weight
    assert found == pytest.approx(weight - part * (weight - limit), rel=1e-4)


def test_a_page_that_answers_comes_before_the_page_that_its_question_names() -> None:
    index = PredictiveAssociativeIndex(dim=2)
    index.add([[0.8, 0.6]], ["whole"], ["Landlock is a sandbox."], [{"title": "Landlock"}])
    index.add([[1, 0]], ["part"], ["Create a ruleset of Landlock."], [{"title": "landlock_create_ruleset"}])
    index.add([[0, 1]] * 20, [f"other {at}" for at in range(20)], ["nothing of note"] * 20)
    assert index.recall([1, 0], text="create a Landlock ruleset", k=2).ids == ["part", "whole"]
    assert index.recall([1, 0], text="Landlock", k=2).ids == ["whole", "part"]


def test_a_question_of_many_names_takes_linear_time() -> None:
    world = _world(("a", "clock(3)", "x"))
    question = Question(world, "clock " * 40_000, {"a": 0.5})  # in quadratic time this would take a minute
    assert _ask(world, question, "a")["a"]["asked"] == pytest.approx(_idf(21, 0), rel=1e-5)


def test_pages_that_name_each_other_do_not_come_before_the_one_that_answers() -> None:
    """Four pages look a little less like the question, and each names the others."""
    index = PredictiveAssociativeIndex(dim=3)
    names = [f"Page {at}" for at in "ABCD"]
    index.add([[1, 0, 0]], ["right"], ["how to do it"], [{"title": "The Right One"}])
    index.add([[0.9, 0.4359, 0]] * 4, names, ["see " + ", ".join(names)] * 4, [{"title": name} for name in names])
    index.add([[0, 0, 1]] * 20, [f"other {at}" for at in range(20)], ["nothing of note"] * 20)
    hits = index.recall([1, 0, 0], text="unheard", k=5, explain=True)
    assert hits.ids[0] == "right"
    assert all(hit.mentions for hit in hits[1:5])


def test_a_mention_has_its_name_and_source() -> None:
    world = _world(*CHAIN)
    question = Question(world, "Kiss and Tell", dict(zip("abcd", LOOKS, strict=False)))
    found = _mentioned(world, question, "a")
    rows = world.memories.rows_of([*"abcd"])
    at, way = found.rows.tolist().index(rows["b"]), WAYS.index("names")
    assert found.sources[at, way] == rows["a"]
    assert world.store.names()["shirley temple"] == int(found.numbers[at, way])
    mentions = world.store.mentions_of(np.array([rows["a"]]))
    position = mentions.numbers.tolist().index(int(found.numbers[at, way]))
    start, length = int(mentions.starts[position]), int(mentions.lengths[position])
    assert "It stars Shirley Temple."[start : start + length] == "Shirley Temple"
    asked = found.rows.tolist().index(rows["a"])
    assert found.sources[asked, WAYS.index("asked")] == -1


def test_an_index_without_names_gives_no_mentions() -> None:
    world = World()
    world.add(*((f"t{at}", "Shirley Temple met Natalie Wood in New York", {"speaker": "Ann"}) for at in range(9)))
    rows = np.arange(1, 10)
    question = Question(world, "Shirley Temple", {f"t{at}": 0.5 for at in range(9)})
    assert len(MentionSource(world.store).score(question, rows, np.full(9, 0.5, np.float32)).rows) == 0


TITLES = ("ann x", "bob y", "cat z")
PASSAGES = st.lists(
    st.tuples(st.sampled_from((*TITLES, None)), st.lists(st.sampled_from(TITLES), max_size=3)), min_size=1, max_size=6
)


@settings(max_examples=40, deadline=None)
@given(PASSAGES, st.lists(st.sampled_from(TITLES), max_size=2), st.integers(1, 3))
def test_the_first_step_is_that_of_a_plain_loop(
    passages: list[tuple[str | None, list[str]]], asked: list[str], seeds: int
) -> None:
    ids = "abcdef"[: len(passages)]
    title = {id: one for id, (one, _) in zip(ids, passages, strict=True)}
    text = {id: " ! ".join([*names, "w"]) for id, (_, names) in zip(ids, passages, strict=True)}
    world = _world(*((id, title[id], text[id]) for id in ids))
    scores = dict(zip(ids, LOOKS, strict=False))
    question = Question(world, " ! ".join(["w", *asked]), scores)
    found = _ask(world, question, ids[:seeds])

    def worth(name: str, target: str) -> float:
        if title[target] != name:
            return 0.0
        fits = {id: math.exp(scores[id] / TEMPERATURE) for id in ids if title[id] == name}
        return _idf(20 + len(ids), sum(name in text[id] for id in ids)) * fits[target] / sum(fits.values())

    def left(source: str, target: str) -> float:
        terms = [term for term in question.terms if term in words(text[target]) and term not in words(text[source])]
        return len(terms) / len(question.terms)

    def better(source: str, id: str) -> bool:
        return scores[source] > scores[id] and title[id] in [n for n in asked if n in text[source]]

    by_question = {id: max((worth(name, id) for name in asked), default=0.0) for id in ids}
    strength = {id: scores[id] + PRIOR["asked"] * by_question[id] for id in ids if id in ids[:seeds] or by_question[id]}
    by_text = {
        target: max(
            strength[source] ** POWER * worth(name, target) * (1 + LEFT * left(source, target)) * (source != target)
            for source in strength
            for name in [n for n in TITLES if n in text[source]] or [""]
        )
        for target in ids
    }
    rest = {word for name in ["w", *asked] if name not in title.values() for word in words(name)}

    def limited(weight: float, source: str, id: str) -> float:
        part = len(rest & set(words(text[source]))) / len(rest)
        return weight - part * (weight - _counted(weight, scores[source], scores[id]))

    by_limits = {
        id: min([weight, *(limited(weight, source, id) for source in strength if better(source, id))])
        for id, weight in by_question.items()
    }
    assert {id: found.get(id, {}).get("asked", 0) for id in ids} == pytest.approx(by_limits, rel=1e-4, abs=1e-6)
    assert {id: found.get(id, {}).get("names", 0) for id in ids} == pytest.approx(by_text, rel=1e-4, abs=1e-6)
