"""Names, mentions and links agree with plain Python, and with an index that is built in one call."""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pam_retriever.errors import InvalidInput
from pam_retriever.mentions.finder import find
from pam_retriever.mentions.folding import TOKENIZER, fold, fold_words, spans, words
from pam_retriever.mentions.graph import MentionGraph, MentionRules
from pam_retriever.mentions.links import LinkRules, are_phrases, number_of, phrase_number
from pam_retriever.mentions.names import MOST_NAMES, Name, NameRules, capitalised, phrase_of
from pam_retriever.mentions.scripts import cut, is_unspaced
from pam_retriever.mentions.store import TABLES, SQLiteMentions, beginnings
from pam_retriever.mentions.vocabulary import MemoryVocabulary
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.storing import NewMemories

WORDS = ("new", "york", "city", "The", "of", "Zoë", "zoe", "kiss", "tell", "and", "U.S.", "c++", "naïve", "7")
SEPARATORS = (" ", ", ", "-", ". ", "\n", "\u0301 ", "_")


class World:
    """Memories and their mentions in an SQLite database."""

    def __init__(self, rules: MentionRules | None = None) -> None:
        self.database = SQLiteDatabase()
        self.memories = self.database.memories
        self.store = SQLiteMentions(self.database.connection)
        self.graph = MentionGraph(self.store, rules)

    def add(self, *memories: tuple[str, str | None, dict[str, object]]) -> None:
        with self.database.transaction():
            new = NewMemories(
                [id for id, _, _ in memories],
                np.ones((len(memories), 1), np.float32),
                [text for _, text, _ in memories],
                [json.dumps(metadata) for _, _, metadata in memories],
            )
            rows = self.memories.upsert(new, None)
            self.graph.follow(rows)

    def delete(self, *ids: str) -> None:
        with self.database.transaction():
            rows = np.array(list(self.memories.rows_of(ids).values()), np.int64)
            self.graph.forget(rows)
            self.memories.remove(rows)

    def rebuild(self) -> None:
        with self.database.transaction():
            self.graph.rebuild()

    def edges(self) -> set[tuple[str, str, str, int]]:
        """Returns (source, target, words in the text, position); target is empty for a phrase or a link to nothing."""
        return set(
            self.database.connection.fetch(
                "SELECT m.id, coalesce(t.id, ''), substr(m.text, start + 1, length), start FROM mentions "
                "JOIN memories m USING (row) LEFT JOIN called USING (number) LEFT JOIN memories t ON t.row = called.row"
            )
        )

    def state(self) -> tuple[object, ...]:
        """Returns everything that is stored, with names as words."""
        names = dict(self.database.connection.fetch("SELECT number, phrase FROM names"))
        called = self.database.connection.fetch("SELECT number, row, short FROM called")
        mentions = self.database.connection.fetch("SELECT row, number, start, length FROM mentions")
        return (
            sorted(names.values()),
            sorted((str(names.get(number, number)), row, short) for number, row, short in called),
            sorted((row, str(names.get(number, number)), start, length) for row, number, start, length in mentions),
        )


# folding


def test_folding_reads_characters_as_the_words_index_does() -> None:
    database = sqlite3.connect(":memory:")
    database.execute(f'CREATE VIRTUAL TABLE t USING fts5 (text, tokenize = "{TOKENIZER}")')
    database.execute("CREATE VIRTUAL TABLE v USING fts5vocab (t, instance)")
    codes = [*range(1, 0x3000), *range(0xFB00, 0xFE00), *range(0x1F600, 0x1F650)]
    texts = {code: f"1{chr(code)}2 {chr(code)}" for code in codes if not is_unspaced(chr(code))}
    database.executemany("INSERT INTO t (rowid, text) VALUES (?, ?)", ((code, cut(one)) for code, one in texts.items()))
    terms: dict[int, list[tuple[int, str]]] = {}
    for term, row, offset in database.execute("SELECT term, doc, offset FROM v"):
        terms.setdefault(row, []).append((offset, term))
    assert all([term for _, term in sorted(terms[code])] == words(one) for code, one in texts.items())
    assert all(len(fold(chr(c))) <= 1 for c in codes)


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_spans_are_where_the_words_are(text: str) -> None:
    text = text.replace("\x00", " ")
    positions = spans(text, fold_words(text))
    assert [fold(text[start:end]) for start, end in positions] == words(text)
    letters = [(is_unspaced(text[end - 1 : end]), text[end : end + 1]) for _, end in positions]
    assert all(unspaced or is_unspaced(after) or not fold(after).strip() for unspaced, after in letters)
    assert positions == sorted(positions)


# names


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"title": "Kiss and Tell (1945 film)"}, [Name("kiss and tell 1945 film"), Name("kiss and tell", True)]),
        ({"name": "Zoë", "aliases": ["Zoe", "Z.", 7]}, [Name("zoe")]),
        ({"title": "The"}, []),
        ({"title": "It (novel)"}, [Name("it novel")]),
        ({"title": "x" * 10_000_000}, []),
        ({"title": " ".join("abcdefghijklmnopqrs")}, []),
        ({"title": None, "aliases": "Bob"}, [Name("bob")]),
        ({"heading": "Bob"}, []),
        ({"title": "(brackets)"}, [Name("brackets")]),
        ({"title": "東京タワー\uff08塔\uff09"}, [Name("東 京 タ ワ ー 塔"), Name("東 京 タ ワ ー", True)]),
        ({"title": "猫"}, []),
        ({"title": "हिन्दी भाषा"}, [Name("हिन्दी भाषा")]),
    ],
)
def test_what_a_memory_is_called(metadata: dict[str, object], expected: list[Name]) -> None:
    assert NameRules().of(metadata, None) == expected


def test_a_million_aliases_are_read_no_further_than_the_limit() -> None:
    aliases = [f"alias {number}" for number in range(1_000_000)]
    assert len(NameRules().of({"aliases": aliases}, None)) == MOST_NAMES


@pytest.mark.parametrize(
    ("text", "heading"),
    [("# Kiss and Tell #\n\nA film", "kiss and tell"), ("\nKiss\n====\n", "kiss"), ("no heading", None)],
)
def test_the_first_heading_is_a_name_where_asked(text: str, heading: str | None) -> None:
    assert NameRules(headings=True).of({}, text) == ([Name(heading)] if heading else [])
    assert NameRules().of({}, text) == []


def test_names_from_a_function() -> None:
    rules = NameRules(lambda metadata, text: [str(metadata["ticket"]), (text or "").split()[0]])
    assert rules.of({"ticket": "AB-1"}, "Login fails") == [Name("ab 1"), Name("login")]
    with pytest.raises(InvalidInput, match="<lambda> returned 7"):
        NameRules(lambda metadata, text: [7]).of({}, None)  # type: ignore[list-item]


@pytest.mark.parametrize("names", ["title", ("title", 7)])
def test_keys_that_are_no_keys_are_refused(names: object) -> None:
    with pytest.raises(InvalidInput, match="keys of the metadata"):
        NameRules(names)  # type: ignore[arg-type]


# finding


def _found_by_regex(text: str, names: list[str]) -> list[tuple[str, int]]:
    """Finds names by a regular expression, the leftmost first, then the longest, in a text of plain words."""
    ordered = sorted(names, key=lambda name: -name.count(" "))
    pattern = re.compile("|".join(rf"(?<!\S){re.escape(name)}(?!\S)" for name in ordered))
    return [(match.group(), match.start()) for match in pattern.finditer(text)]


PHRASES = st.lists(st.sampled_from(("a1", "b1", "c1", "d1")), min_size=1, max_size=5).map(" ".join)


class _Table:
    """Looks names up in a dict, in place of the database."""

    def __init__(self, numbers: dict[str, int]) -> None:
        self._numbers, self._longest = numbers, beginnings(numbers)

    def longest(self, beginnings: Iterable[str]) -> dict[str, int]:
        return {one: self._longest[one] for one in beginnings if one in self._longest}

    def known(self, phrases: Iterable[str]) -> dict[str, int]:
        return {one: self._numbers[one] for one in phrases if one in self._numbers}


@pytest.mark.parametrize("kind", [MemoryVocabulary, _Table])
@given(st.lists(PHRASES, min_size=1, max_size=12, unique=True), st.lists(PHRASES, max_size=8))
def test_finding_is_a_search_by_regular_expression(kind: type, names: list[str], texts: list[str]) -> None:
    texts = [f"{text} {text} e1 {text}" for text in texts]
    found = find(texts, kind({name: at for at, name in enumerate(names)}))
    assert [[(names[one.name], one.start) for one in several] for several in found] == [
        _found_by_regex(text, names) for text in texts
    ]
    assert all(
        text[one.start : one.end] == names[one.name]
        for text, several in zip(texts, found, strict=True)
        for one in several
    )


def test_names_of_one_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the base 1 a hash is a sum over the characters: names of the same letters collide."""
    monkeypatch.setattr("pam_retriever.mentions.vocabulary.secrets.randbits", lambda _: 0)
    names, texts = {"on": 1, "no": 2, "no on": 3}, ["on no non", "no one", "no on"]
    assert [[one.name for one in found] for found in find(texts, MemoryVocabulary(names))] == [[1, 2], [2], [3]]
    assert find(["on no"], MemoryVocabulary({"no": 2}))[0][0].start == 3


def test_names_in_a_text_of_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pam_retriever.mentions.vocabulary.AT_ONCE", 8)
    names = {f"n{at} x": at for at in range(30)}
    texts = [f"n{at} x, n{at + 1} x" for at in range(29)] + ["", "no name"]
    found = find(texts, MemoryVocabulary(names))
    assert [[one.name for one in several] for several in found] == [[at, at + 1] for at in range(29)] + [[], []]


def test_names_are_found_whatever_case_marks_and_punctuation() -> None:
    text = "At the cafe\u0301-de-FLORE, Zoë's; not cafes."
    vocabulary = MemoryVocabulary(
        dict(zip(filter(None, map(phrase_of, ("Café de Flore", "ZOE", "cafe"))), range(3), strict=False))
    )
    assert [text[one.start : one.end] for one in find([text], vocabulary)[0]] == ["cafe\u0301-de-FLORE", "Zoë"]


# links and phrases


@pytest.mark.parametrize(
    ("text", "metadata"),
    [
        ("see [it](b.md)", {"path": "notes/b.md"}),
        ("see [it](./b.md#part)", {"path": "notes/b.md"}),
        ("see [it](<../notes/b.md>)", {"path": "notes/b.md"}),
        ("see [it][1]\n\n[1]: b.md", {"path": "notes/b.md"}),
        ("see [[B]]", {"path": "notes/b.md"}),
        ("see [[notes/b|this]]", {"path": "notes/b.md"}),
        ("see [[b#part]]", {"path": "notes/b.md"}),
        ("see [[B.md#part]]", {"path": "notes/sub/b.md"}),
        ("see notes/b.md.", {"path": "notes/b.md"}),
        ('<a href="b.md">', {"path": "notes/b.md"}),
        ("see https://Example.org/b/, or not", {"url": "http://example.org/b"}),
        ("see [it](<the b (2).md>)", {"path": "notes/the b (2).md"}),
        ('see [it](<the b.md> "title")', {"path": "notes/the b.md"}),
        ("see [it](the%20b%20(2).md)", {"path": "notes/the b (2).md"}),
        ("see [it][1]\n\n[1]: <the b.md>", {"path": "notes/the b.md"}),
        ("see (https://example.org/b_(c))", {"url": "https://example.org/b_(c)"}),
        ("see [it](https://example.org/b_(c)d)", {"url": "https://example.org/b_(c)d"}),
        ("see [it](caf\u00e9.md)", {"path": "notes/cafe\u0301.md"}),  # some systems decompose the names of files
        ("see [it](cafe%CC%81.md)", {"path": "notes/caf\u00e9.md"}),
        ("see [[Caf\u00e9]]", {"path": "notes/cafe\u0301.md"}),
        ("see [it](target-1)", {}),
        ("fixes AB-12", {"ticket": "AB-12"}),
    ],
)
def test_links_point_to_what_they_name(text: str, metadata: dict[str, object]) -> None:
    rules = LinkRules(fields=("path", "url", "ticket"), patterns=(r"\b[A-Z]+-\d+\b",))
    links = {link.number: link for link in rules.links_of(text, {"path": "notes/a.md"})}
    hit = set(links) & rules.keys_of("target-1", metadata)
    assert hit
    assert all(0 <= links[one].start < links[one].end <= len(text) and one < 0 for one in hit)
    assert not are_phrases(np.array(sorted(hit))).any()
    assert not set(links) & rules.keys_of("other", {"path": "notes/c.md", "url": "http://example.org/c"})


def test_numbers_tell_links_and_phrases_apart() -> None:
    """The number of a name shows whether it belongs to a link or to a phrase."""
    for key in ("", "a", "notes/b.md", "\ud800"):
        assert number_of(key) < 0 and not are_phrases(np.array(number_of(key)))
        assert are_phrases(np.array(phrase_number(key)))
        assert number_of(key) >= -(2**63)


@pytest.mark.parametrize("pattern", [r"(a+)+\1", "(?=a)", "[", "a*", "x" * 2000])
def test_patterns_that_cannot_run_in_linear_time_are_refused(pattern: str) -> None:
    with pytest.raises(InvalidInput):
        LinkRules(patterns=(pattern,))


def test_a_pattern_that_backtracks_elsewhere_is_harmless() -> None:
    """A pattern that takes exponential time in other engines is searched in linear time."""
    rules = LinkRules(patterns=("(a+)+b", "[A-Z]+-[0-9]+"))
    assert rules.links_of("a" * 2_000_000 + "A" * 2_000_000, {}) == []


@pytest.mark.parametrize(
    "part",
    ["[", "](", "[[", "a/", "https://", "href='", "(", "A ", "Aa-", "# ", "<", "\n[", "](<", "](a(", "https://a("],
)
def test_hostile_texts_are_read_in_linear_time(part: str) -> None:
    text = part * 100_000  # in quadratic time this would take minutes
    LinkRules().links_of(text, {})
    capitalised(text)
    NameRules(headings=True).of({"title": text}, text)


def test_a_run_of_stop_words_is_read_in_linear_time() -> None:
    assert set(capitalised("A " * 2_000_000 + "Bee Sea")) == {"bee sea"}  # in quadratic time this would take minutes


def test_capitalised_runs() -> None:
    text = "The Kiss and Natalie Wood, Samuel L. Jackson. In New York City-State he met Ёлка Белова"
    assert {phrase: text[slice(*position)] for phrase, position in capitalised(text).items()} == {
        "natalie wood": "Natalie Wood",
        "samuel l jackson": "Samuel L. Jackson",
        "new york city state": "In New York City-State",
        "ёлка белова": "Ёлка Белова",
    }


# the graph


def test_both_ways_and_later() -> None:
    """Two texts mention each other in either order of addition; later changes update the mentions."""
    world = World()
    world.add(("film", "Shirley Temple is in it.", {"title": "Kiss and Tell (1945 film)"}))
    world.add(("her", "An actress; see Kiss and Tell.", {"title": "Shirley Temple"}))
    edges = {("film", "her", "Shirley Temple", 0), ("her", "film", "Kiss and Tell", 16)}
    assert edges <= world.edges()
    world.delete("her")
    assert not {edge for edge in world.edges() if edge[1]}
    world.add(("her", "An actress; see Kiss and Tell.", {"title": "Shirley Temple"}))
    assert edges <= world.edges()
    world.add(("her", "An actress.", {"title": "Shirley"}))
    assert {edge for edge in world.edges() if edge[1]} == {("film", "her", "Shirley", 0)}


def test_a_longer_name_takes_the_place_of_a_shorter_and_gives_it_back() -> None:
    world = World(MentionRules(phrases=False))
    world.add(("york", None, {"title": "York"}), ("text", "He is in New York now", {}))
    assert world.edges() == {("text", "york", "York", 13)}
    world.add(("new", None, {"title": "New York"}))
    assert world.edges() == {("text", "new", "New York", 9)}
    world.delete("new")
    assert world.edges() == {("text", "york", "York", 13)}


def test_a_link_waits_for_what_it_points_to() -> None:
    world = World()
    world.add(("a", "see [b](b.md)", {"path": "notes/a.md"}))
    assert all(whom == "" for _, whom, _, _ in world.edges())
    world.add(("b", "here", {"path": "notes/b.md"}))
    assert ("a", "b", "b.md", 8) in world.edges()


def test_a_failed_change_leaves_no_mentions() -> None:
    def names(metadata: object, _: str | None) -> list[str]:
        if "bad" in str(metadata):
            raise KeyError("bad")
        return ["york"]

    world = World(MentionRules(NameRules(names)))
    world.add(("a", "york", {}))
    before = world.state()
    with pytest.raises(InvalidInput, match="bad"):
        world.add(("b", "york", {"bad": 1}))
    assert world.state() == before


def test_full_names_go_before_short_ones() -> None:
    """A memory with the name as its full title has precedence over memories with it as a short name."""
    world = World()
    world.add(
        ("planet", None, {"title": "Mercury (planet)"}),
        ("god", None, {"title": "Mercury (god)"}),
        ("text", "Mercury", {}),
    )
    number = world.store.known(["mercury"])["mercury"]
    rows = world.memories.rows_of(["planet", "god"])
    [(found, _)] = world.store.looked_up(np.array([number]), 10)
    assert set(found) == set(rows.values())
    world.add(("metal", None, {"title": "Mercury"}))
    metal = world.memories.rows_of(["metal"])["metal"]
    assert world.store.looked_up(np.array([number]), 10)[0][0] == [metal]
    assert world.store.looked_up(np.array([number]), 2)[0][0] == []


def test_names_of_more_texts_than_the_limit_are_found_in_later_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pam_retriever.mentions.graph.MOST_TEXTS", 3)
    world = World()
    world.add(*((f"t{at}", "a game", {}) for at in range(5)))
    world.add(("game", None, {"title": "Game"}))
    assert world.edges() == set()
    world.add(("later", "a game", {}))
    assert world.edges() == {("later", "game", "game", 2)}
    world.rebuild()
    assert len(world.edges()) == 6


TITLES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
TEXTS = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(SEPARATORS)), max_size=12).map(
    lambda pairs: "".join(word + separator for word, separator in pairs) + "[[note 1]] x/y.md"
)
METADATA = st.one_of(
    st.just({}),
    st.builds(lambda title: {"title": title}, TITLES),
    st.builds(lambda title: {"title": f"{title} (film)", "path": "x/y.md"}, TITLES),
    st.just({"path": "note 1.md"}),
)
MEMORIES = st.tuples(st.sampled_from("abcdef"), st.one_of(st.none(), TEXTS), METADATA)
CHANGES = st.lists(
    st.one_of(
        st.lists(MEMORIES, min_size=1, max_size=4, unique_by=lambda memory: memory[0]),
        st.sets(st.sampled_from("abcdef"), min_size=1, max_size=3),
    ),
    max_size=8,
)


@settings(max_examples=75, deadline=None)
@given(CHANGES)
def test_changes_in_any_order_give_what_building_at_once_gives(changes: list[object]) -> None:
    world = World()
    for change in changes:
        if isinstance(change, set):
            world.delete(*change)
        else:
            world.add(*change)  # type: ignore[misc]
    followed = world.state()
    world.rebuild()
    assert followed == world.state()


@settings(max_examples=100, deadline=None)
@given(st.lists(MEMORIES, min_size=1, max_size=6, unique_by=lambda memory: memory[0]))
def test_mentions_are_those_of_plain_python(memories: list[tuple[str, str | None, dict[str, object]]]) -> None:
    world = World(MentionRules(phrases=False))
    world.add(*memories)
    plain = {id: " ".join(_plain_words(text)) for id, text, _ in memories if text}
    bearers: dict[str, set[str]] = {}
    for id, _, metadata in memories:
        for name in NameRules().of(metadata, None):
            bearers.setdefault(name.phrase, set()).add(id)
    expected = {
        (id, whom)
        for id, text in plain.items()
        for phrase, _ in (_found_by_regex(text, list(bearers)) if bearers else [])
        for whom in bearers[phrase]
    }
    stored = world.database.connection.fetch(
        "SELECT m.id, t.id FROM mentions JOIN memories m USING (row) JOIN called USING (number) "
        "JOIN memories t ON t.row = called.row WHERE number > 0"
    )
    assert set(stored) == expected


def _plain_words(text: str) -> list[str]:
    """Returns words by the standard library alone, for texts in Latin letters."""
    bare = "".join(c for c in unicodedata.normalize("NFD", text.lower()) if not unicodedata.combining(c))
    return re.findall(r"[^\W_]+", bare)


def test_an_empty_store_has_all_its_tables_and_nothing_in_them() -> None:
    world = World()
    world.add(("a", "b is here", {"title": "a name"}), ("b", None, {"title": "b"}))
    world.delete("a", "b")
    left = {table: world.database.connection.fetch(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}
    assert left == {"mentions": 0, "called": 0, "names": 0, "beginnings": left["beginnings"]}
