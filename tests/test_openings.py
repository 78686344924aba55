"""A title or a definition with which a text begins names its memory, if nothing else does."""

from __future__ import annotations

import numpy as np
import pytest

from pam_retriever import Naming, PredictiveAssociativeIndex
from pam_retriever.mentions.names import Name, NameRules
from pam_retriever.mentions.openings import (
    SAMPLE,
    WITHIN,
    are_named,
    opening_names,
    short_subject,
    subject_of,
    title_of,
)
from pam_retriever.mentions.store import BEGINNING
from pam_retriever.store.index_mentions import MANY

DIM = 8
DEFINED = {
    "kiss": "Kiss and Tell is a 1945 film. In it Shirley Temple plays Corliss Archer.",
    "temple": "Shirley Jane Temple (April 23, 1928 - February 10, 2014) was an American diplomat in Ghana.",
    "ghana": "The Republic of Ghana is a country on the coast.",
    "lyon": "Lyon is a city between two rivers.",
    "rhine": "The Rhine is a river.",
}


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("Ada Lovelace (1815-1852) was an English mathematician.", "Ada Lovelace"),
        ("Ada Lovelace (born Byron (1815)) was an English mathematician.", "Ada Lovelace"),
        ("The A41 is a major road in England.", "A41"),
        ('"The Office" is a television series.', "The Office"),
        ("Good Day for a Hanging is a 1959 film.", "Good Day for a Hanging"),
        ("John F. Kennedy was the 35th president.", "John F. Kennedy"),
        ("Sammy Davis, Jr. was an American singer.", "Sammy Davis, Jr."),
        ("S.N. Mathur was the director of the bureau.", "S.N. Mathur"),
        ("3M is an American company.", "3M"),
        ("Acme Portal, our oldest product, is an internal tool.", "Acme Portal"),
        ("Der Rhein ist ein Strom in Westeuropa.", "Rhein"),
        ("Marie Curie, née Skłodowska, est une physicienne.", "Marie Curie"),
        ("El Quijote es una novela.", "Quijote"),
        ("La Divina Commedia è un poema.", "Divina Commedia"),
        ("O Rio Amazonas é um rio.", "Rio Amazonas"),
        ("De Rijn is een rivier.", "Rijn"),
        ('"This Is It" is an album.', "This Is It"),
        # no definition of a name
        ("It is a film.", None),
        ("This is the third time.", None),
        ("Here is a list.", None),
        ("Das ist ein Test.", None),
        ("C'est un livre.", None),
        ("swimming is a good choice.", None),
        ("The cat was a stray.", None),
        ("Kids are resilient.", None),
        ("Thanks, Mel! The event was the best.", None),
        ("She likes tea. Bob is a plumber.", None),
        ("Hello there. Bob is a plumber.", None),
        ("Paris, London and Rome are the largest.", None),
        ("Ada was in London.", None),
        ("Melanie: It was a great day.", None),
        ("", None),
    ],
)
def test_the_subject_of_a_definition(text: str, subject: str | None) -> None:
    assert subject_of(text) == subject


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Mara Holt\n\nShe trained as a cook.", "Mara Holt"),
        ("Shopping list\n- milk", "Shopping list"),
        ("## The boiler ##\nIt leaks.", "The boiler ##"),
        ("docs/api.rst\nAPI\n===", "docs/api.rst"),
        ("Star Wars: Episode IV\nA film.", "Star Wars: Episode IV"),
        ("日記\n今日は", "日記"),
        ("C++\nA language.", "C++"),
        ("Steve Smith (American Dad!)\nA son.", "Steve Smith (American Dad!)"),
        (".github/ci.yml\nname", ".github/ci.yml"),
        # a sentence, code, a label, one line alone, an indented line, or too long
        ("She trained as a cook.\nIn Lyon.", None),
        ("Who runs the canteen?\nMara.", None),
        ("Dear Mara,\nthank you", None),
        ("今日は海へ行きました。\n楽しかった。", None),
        ("To be continued…\nsoon", None),
        ("Sure! Here is a plan\n1. Cook", None),
        ("Mara trained. In Lyon\nas a cook", None),
        ("import os\nimport sys", None),
        ("x = 1\ny = 2", None),
        ("foo(bar)\nbaz", None),
        ('"""A module of plain text."""\nx', None),
        ("Ann: hello there\nBob: hi", None),
        ("struct Point\n{", None),
        ("// A comment\nint x", None),
        ("CREATE TABLE users (\nid", None),
        ("- milk\n- eggs", None),
        ("---\ntext", None),
        ("She said 'hello.'\nThen", None),
        ("昨日。今日\n明日", None),
        ("मैं घर गया।\nवह", None),
        ("12:30 Ann came\n12:31 Ann left", None),
        ("Mara Holt", None),
        ("Mara Holt\n   \n", None),
        ("  path\n    Path to be examined", None),
        ("This part of the documentation covers all the interfaces of a\nlibrary", None),
        ("", None),
    ],
)
def test_the_title_in_the_first_line(text: str, title: str | None) -> None:
    assert title_of(text) == title


def test_only_the_opening_of_a_text_is_read() -> None:
    assert subject_of("Ada is a " + "x" * 10_000_000) == "Ada"
    assert subject_of("Ada" + " " * WITHIN + "is a mathematician.") is None
    for part in ("A ", "(", "A (", "Ab, c ", '"A" ', "# ", "\n"):
        assert opening_names(part * 5_000_000) == (None, None)


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("Shirley Temple Black", "Shirley Black"),
        ('Naftuli "Nathan" Hertz Juran', "Naftuli Juran"),
        ("Martin Luther King, Jr.", "Martin King"),
        ("Shirley Temple", None),
        ("Sammy Davis, Jr.", None),
        ("Kiss and Tell", None),
    ],
)
def test_the_short_form_of_a_subject(name: str, short: str | None) -> None:
    assert short_subject(name) == short


def test_openings_are_names_of_memories_that_have_no_other() -> None:
    rules = NameRules(openings=True)
    assert rules.of({}, DEFINED["temple"]) == [Name("shirley jane temple"), Name("shirley temple", short=True)]
    assert rules.of({}, "Ada\n\nBob is a cook.") == [Name("ada")]
    assert rules.of({"title": "A star"}, DEFINED["temple"]) == [Name("a star")]
    assert rules.of({"title": "the"}, DEFINED["kiss"]) == [Name("kiss and tell")]  # a stop word is no name
    assert rules.any_of({}, DEFINED["kiss"]) and not rules.any_of({}, "It is a film.") and not rules.any_of({}, None)
    assert NameRules().of({}, DEFINED["temple"]) == []


def test_a_quarter_of_the_texts_and_two_at_least_must_have_names_of_their_own() -> None:
    named, other = ["Ada is a mathematician.", "Lyon\n\nA city."], "I saw Ada."
    assert are_named(named)
    assert are_named(named + [other] * 6)
    assert not are_named(named + [other] * 7)
    assert not are_named([named[0], other])
    assert not are_named([named[0]] * 2)  # both have the same
    assert not are_named([])


def _vectors(n: int) -> np.ndarray:
    """Returns vectors that are orthogonal to that of the film."""
    vectors = np.random.default_rng(0).normal(size=(n, DIM)).astype(np.float32)
    vectors[:, 0] = 0
    return vectors


def _of_defined() -> np.ndarray:
    vectors = _vectors(len(DEFINED))
    vectors[0] = np.eye(DIM)[0]
    return vectors


def _fill(index: PredictiveAssociativeIndex, n: int = 12) -> None:
    index.add(_vectors(n), ids=[f"filler {at}" for at in range(n)], texts=[f"Nothing of note {at}." for at in range(n)])


def _vector_of(index: PredictiveAssociativeIndex, id: str) -> np.ndarray:
    return index.get([id])[0].vector


def _ask(index: PredictiveAssociativeIndex) -> list[str]:
    """Asks what only a mention can answer: the vector is that of the film."""
    return index.recall(_vector_of(index, "kiss"), 2, text="who was in the film of 1945?").ids


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_question_follows_the_names_that_texts_define(anywhere, one_by_one) -> None:
    index = anywhere(DIM)
    _fill(index)
    vectors = _of_defined()
    if one_by_one:
        for at, (id, text) in enumerate(DEFINED.items()):
            index.append("session", vectors[at], id=id, text=text)
    else:
        index.add(vectors, ids=list(DEFINED), texts=list(DEFINED.values()))
    assert _ask(index) == ["kiss", "temple"]
    hit = index.recall(_vector_of(index, "kiss"), 2, text="who was in the film?", explain=True)[1]
    assert repr(hit.mentions[0]) == '"Kiss and Tell" names "Shirley Temple"'


def test_a_changed_or_deleted_text_takes_its_name_along(anywhere) -> None:
    index = anywhere(DIM)
    _fill(index)
    index.add(_of_defined(), ids=list(DEFINED), texts=list(DEFINED.values()))
    assert _ask(index)[1] == "temple"
    index.update("temple", text="She was a diplomat.")
    assert _ask(index)[1] != "temple"
    index.update("temple", text=DEFINED["temple"])
    assert _ask(index)[1] == "temple"
    index.delete(["temple"])
    names = index._store.database.mentions.store.names()
    assert sorted(names) == ["kiss and tell", "lyon", "republic of ghana", "rhine"]


@pytest.mark.parametrize("names", [(), Naming(openings=False)])
def test_openings_are_off_where_asked_also_after_opening_again(tmp_path, names) -> None:
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, names=names) as index:
        index.add(_of_defined(), ids=list(DEFINED), texts=list(DEFINED.values()))
        assert not index._store.database.mentions.known
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        index.add(_vectors(1), ids=["new"], texts=["Ada Lovelace is a mathematician."])
        assert not index._store.database.mentions.known
    with PredictiveAssociativeIndex.open(tmp_path / "index", names=Naming()) as index:
        assert _ask(index)[1] == "temple"


PLACES = ["notes/my file {at}.md", "file{at}.txt", "https://a.org/{at}", "C:\\notes\\{at}", f"{'0' * 30}{{at}}"]


@pytest.mark.parametrize(
    ("field", "place"),
    [*((field, place) for field in ("source", "ref_doc_id") for place in PLACES), ("ref_doc_id", "my document {at}")],
)
def test_of_a_document_in_passages_the_first_one_counts(field, place) -> None:
    """Nine of ten passages begin with no name, but every document does."""
    index = PredictiveAssociativeIndex(DIM)
    texts = [f"Place {at // 10} is a town." if at % 10 == 0 else "Later it grew." for at in range(400)]
    metadatas = [{field: place.format(at=10 + at // 10)} for at in range(400)]
    index.add(_vectors(400), texts=texts, metadatas=metadatas)
    assert len(index._store.database.mentions.store.names()) == 40


@pytest.mark.parametrize("source", ["towns.csv", "https://a.org/towns"])
def test_of_a_table_with_a_document_in_each_row_every_row_counts(source) -> None:
    """Readers of tables give each row the path of the whole table."""
    index = PredictiveAssociativeIndex(DIM)
    texts = [f"Place {at} is a town." if at % 2 else "Later it grew." for at in range(40)]
    index.add(_vectors(40), texts=texts, metadatas=[{"source": source, "row": at} for at in range(40)])
    assert len(index._store.database.mentions.store.names()) == 20


@pytest.mark.parametrize("kind", [None, "mail", "wiki pages"])
def test_of_a_kind_of_text_every_one_counts(kind) -> None:
    index = PredictiveAssociativeIndex(DIM)
    texts = [f"Place {at // 10} is a town." if at % 10 == 0 else "Later it grew." for at in range(400)]
    index.add(_vectors(400), texts=texts, metadatas=[{} if kind is None else {"source": kind}] * 400)
    assert not index._store.database.mentions.known


def test_a_dialogue_has_no_names_because_two_turns_define_something() -> None:
    index = PredictiveAssociativeIndex(DIM)
    turns = [f"Thanks, Mel! We saw them {at} times." for at in range(60)]
    for at in (5, 40):
        turns[at] = f"Swimming {at} is a good choice, Evan."
    for at, turn in enumerate(turns):
        index.append("chat", _vectors(60)[at], id=f"turn {at}", text=turn)
    assert not index._store.database.mentions.known
    _fill(index, MANY)
    assert not index._store.database.mentions.known


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_title_of_one_memory_does_not_make_openings_names_of_others(one_by_one) -> None:
    index = PredictiveAssociativeIndex(DIM)
    index.add(_vectors(1), ids=["titled"], texts=["A country."], metadatas=[{"title": "Ghana"}])
    turns = [f"Thanks, Mel! We saw them {at} times." for at in range(60)]
    turns[40] = "Swimming is a good choice, Evan."
    if one_by_one:
        for at, turn in enumerate(turns):
            index.append("chat", _vectors(60)[at], id=f"turn {at}", text=turn)
    else:
        index.add(_vectors(60), ids=[f"turn {at}" for at in range(60)], texts=turns)
    store = index._store.database.mentions.store
    assert sorted(store.names()) == ["ghana"]
    index.add(_of_defined(), ids=list(DEFINED), texts=list(DEFINED.values()))
    assert sorted(store.names()) == ["ghana"]
    texts = [f"Place {at} is a town." for at in range(40)]
    index.add(_vectors(40), ids=[f"place {at}" for at in range(40)], texts=texts)
    assert {"ghana", "swimming", "kiss and tell", "place 39"} <= set(store.names())  # now they are, the earlier too


def test_a_bulk_of_openings_after_a_title_names_its_memories() -> None:
    index = PredictiveAssociativeIndex(DIM)
    index.add(_vectors(1), ids=["titled"], texts=["A country."], metadatas=[{"title": "Ghana"}])
    texts = [f"Place {at} is a town." for at in range(MANY)]
    index.add(_vectors(MANY), ids=[f"place {at}" for at in range(MANY)], texts=texts)
    index.recall(_vectors(1)[0], 2, text="a town")
    assert len(index._store.database.mentions.store.names()) == MANY + 1


def test_openings_are_looked_for_among_the_latest_texts() -> None:
    index = PredictiveAssociativeIndex(DIM)
    _fill(index, MANY)
    texts = [f"Place {at} is a town. It lies near Place {at + 1}." for at in range(SAMPLE)]
    index.add(_vectors(SAMPLE), ids=[f"place {at}" for at in range(SAMPLE)], texts=texts)
    assert index._store.database.mentions.known


def test_tenants_have_openings_of_their_own(tmp_path) -> None:
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM) as index:
        ann, bob = index.tenant("ann"), index.tenant("bob")
        _fill(ann)
        _fill(bob)
        ann.add(_of_defined(), ids=list(DEFINED), texts=list(DEFINED.values()))
        assert _ask(ann)[1] == "temple"
        assert not bob._store.database.mentions.known


def test_repair_finds_openings_again(tmp_path) -> None:
    from pam_retriever.store.folder.repair import repair

    folder = tmp_path / "index"
    with PredictiveAssociativeIndex.open(folder, DIM) as index:
        _fill(index)
        index.add(_of_defined(), ids=list(DEFINED), texts=list(DEFINED.values()))
        expected = _ask(index)
    repair(folder)
    with PredictiveAssociativeIndex.open(folder) as index:
        assert _ask(index) == expected == ["kiss", "temple"]


NOTES = {
    "canteen.md": "the canteen is run by [her](mara.md) since spring.",
    "mara.md": "she trained as a cook in the south.",
}


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_question_follows_links_of_notes_without_titles(anywhere, one_by_one) -> None:
    index = anywhere(DIM)
    _fill(index)
    vectors = np.eye(DIM, dtype=np.float32)[:2]
    if one_by_one:
        for at, (id, text) in reversed(list(enumerate(NOTES.items()))):  # the target first
            index.add(vectors[at : at + 1], ids=[id], texts=[text])
    else:
        index.add(vectors, ids=list(NOTES), texts=list(NOTES.values()))
    hits = index.recall(vectors[0], 2, text="who runs the canteen?", explain=True)
    assert hits.ids == ["canteen.md", "mara.md"]
    assert repr(hits[1].mentions[0]) == '"canteen.md" names "mara.md"'


def test_wiki_links_lead_to_a_file_by_its_source() -> None:
    index = PredictiveAssociativeIndex(DIM)
    _fill(index)
    texts = ["the canteen is run by [[Mara Holt]] since spring.", "she trained as a cook."]
    sources = [{"source": "notes/canteen.md"}, {"source": "notes/Mara Holt.md"}]
    index.add(np.eye(DIM)[:2], texts=texts, metadatas=sources)
    hits = index.recall(np.eye(DIM)[0], 2, text="who runs the canteen?")
    assert [hit.metadata["source"] for hit in hits] == ["notes/canteen.md", "notes/Mara Holt.md"]


def test_links_that_lead_nowhere_and_bare_paths_change_nothing() -> None:
    texts = ["see [a](b) and https://x.org/b", "see note/1 and/or note/2", "[[nobody]]", "see [me](note/3)"]
    index = PredictiveAssociativeIndex(DIM)
    index.add(_vectors(4), ids=["note/0", "note/1", "note/2", "note/3"], texts=texts)
    assert not index._store.database.mentions.known
    off = PredictiveAssociativeIndex(DIM, names=())
    off.add(_vectors(2), ids=list(NOTES), texts=list(NOTES.values()))
    assert not off._store.database.mentions.known


def test_only_the_beginnings_of_the_latest_texts_are_read(anywhere) -> None:
    index = anywhere(DIM)
    index.add(_vectors(2), ids=["long", "none"], texts=["Ada is a cook. " + "x" * 20_000, None])
    latest = index._store.database.mentions.store.latest(SAMPLE)
    assert sorted((one.id, len(one.text or "")) for one in latest) == [("long", BEGINNING), ("none", 0)]
