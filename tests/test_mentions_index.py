"""Mentions in an index follow every write, and recall uses them."""

from __future__ import annotations

import json
import random
import sqlite3
from functools import partial

import numpy as np
import pytest
from conftest import QUICK
from hypothesis import given, settings
from hypothesis import strategies as st

from pam_retriever import (
    InvalidInput,
    Mention,
    Naming,
    NotFitted,
    PredictiveAssociativeIndex,
    ReadOnlyIndex,
    Trajectory,
)
from pam_retriever.mentions.store import TABLES, SQLiteMentions
from pam_retriever.retrieval.association import SOURCES
from pam_retriever.store.folder.files import checksum_of
from pam_retriever.store.folder.repair import check, repair
from pam_retriever.store.sqlite import words
from pam_retriever.store.sqlite.damage import check_structure

DIM = 8
FILMS = {
    "kiss": ("Kiss and Tell", "Kiss and Tell is a film with Shirley Temple."),
    "temple": ("Shirley Temple", "Shirley Temple was ambassador to Ghana."),
    "ghana": ("Ghana", "A country on the coast."),
}


def _add(index, *ids, vectors=None):
    texts = [FILMS[id][1] for id in ids]
    index.add(
        _vectors(len(ids)) if vectors is None else vectors,
        ids=list(ids),
        texts=texts,
        metadatas=[{"title": FILMS[id][0]} for id in ids],
    )


def _vectors(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, DIM)).astype(np.float32)


def _fill(index, n=20):
    index.add(
        _vectors(n, 1), ids=[f"filler {at}" for at in range(n)], texts=[f"nothing of note {at}" for at in range(n)]
    )


def _films(make=PredictiveAssociativeIndex, **options):
    index = make(DIM, **options)
    _fill(index)
    _add(index, *FILMS)
    return index


def _state(index):
    """Searches texts whose search was postponed; then returns all stored names and mentions, by word and id."""
    index._search_names()
    database = index._store.database
    fetch = database.mentions.store._sql.fetch
    ids = {row: id for row, (id, *_) in database.memories.contents(database.memories.rows()).items()}
    names = dict(fetch("SELECT number, phrase FROM names"))
    called = [(str(names.get(n, n)), ids[row], s) for n, row, s in fetch("SELECT number, row, short FROM called")]
    mentions = fetch("SELECT row, number, start, length FROM mentions")
    return (
        sorted(names.values()),
        sorted(called),
        sorted((ids[row], str(names.get(n, n)), start, length) for row, n, start, length in mentions),
    )


def test_a_question_finds_whom_its_hits_name(anywhere):
    index = _films(anywhere)
    asked = index._store.database.memories.records(["kiss"])["kiss"].vector
    hits = index.recall(asked, 23, text="which film is about a kiss", explain=True)
    assert hits.ids[:2] == ["kiss", "temple"]
    assert hits[1].mentions[0] == Mention("Kiss and Tell", "Shirley Temple", "names", 29, "kiss")
    assert repr(hits[1].mentions[0]) == '"Kiss and Tell" names "Shirley Temple"'
    # two mentions away: the film names Temple, whose text names Ghana
    assert hits[hits.ids.index("ghana")].mentions[0].source_id == "temple"
    assert max(hits.scores) <= 1
    assert json.loads(json.dumps(hits.to_dicts()))[1]["mentions"][0]["name"] == "Shirley Temple"
    assert "mentions=" not in repr(index.recall(asked, 3, text="film"))


def test_a_question_finds_whom_it_names(anywhere):
    hits = _films(anywhere).recall(np.ones(DIM), 1, text="who was shirley temple?", explain=True)
    assert hits.ids == ["temple"]
    assert Mention(None, "shirley temple", "asked", 8, None) in hits[0].mentions
    assert repr(hits[0].mentions[0]) == 'the question names "shirley temple"'


@pytest.mark.parametrize("used", [False, True])
def test_hits_behind_mentions_keep_what_is_known_of_them(used):
    index, silent = _films(PredictiveAssociativeIndex), _films(PredictiveAssociativeIndex, names=())
    for one in (index, silent):
        if used:
            one.feedback(np.ones(DIM), ["filler 3", "filler 4"], text="filler")
        else:
            one.observe(["temple", "filler 3"])
    hits, plain = (one.recall("temple", 23, explain=True) for one in (index, silent))
    assert [set(hit.sources) for hit in hits[:2]] == [{"mentions"}] * 2
    assert [(hit.association, hit.confidence) for hit in hits[:2]] == [(None, None)] * 2
    by_id, first = {hit.id: hit for hit in plain}, hits[1].score
    for hit in hits[2:]:
        assert (hit.association is None, hit.confidence is None) == (False, not used)
        if not used:
            assert hit.association == by_id[hit.id].association
            assert sum(hit.sources.values()) == pytest.approx(hit.score, abs=1e-6)
            parts = {name: part * first for name, part in by_id[hit.id].sources.items()}
            assert hit.sources == pytest.approx(parts, abs=1e-6)


def test_sources_of_a_memory_before_a_fit_can_be_left_out():
    index, silent = _films(PredictiveAssociativeIndex), _films(PredictiveAssociativeIndex, names=())
    for one in (index, silent):
        one.observe(["temple", "filler 3"])
    assert list(index.recall("temple", without=["mentions"])) == list(silent.recall("temple"))
    alone = index.recall("temple", without=["experience", "similarity"], explain=True)
    assert [hit.sources for hit in alone] == [{"mentions": hit.score} for hit in alone]
    assert alone.ids == index.recall("temple").ids[:2]
    assert index.recall("temple", without=["experience", "similarity"], min_score=2.0).ids == []
    assert index.recall("temple", without=["experience"]).ids[2] != "filler 3"
    with pytest.raises(InvalidInput, match="every source"):
        index.recall("temple", without=["experience", "similarity", "mentions"])
    with pytest.raises(InvalidInput, match="sources of this answer: experience, mentions"):
        index.recall("temple", mode="association", without=["similarity"])


def test_feedback_leaves_mentions_and_their_reasons(anywhere):
    index = _films(anywhere)
    vector = index._store.database.memories.records(["kiss"])["kiss"].vector
    index.feedback(np.ones((2, DIM)), [["filler 3"], ["filler 4"]], text=["filler", "another filler"])
    hits = index.recall(vector, 23, text="which film is about a kiss", explain=True)
    assert hits.ids[:2] == ["kiss", "temple"]
    assert hits[1].mentions[0] == Mention("Kiss and Tell", "Shirley Temple", "names", 29, "kiss")
    assert hits[1].sources["mentions"] > 0
    assert hits[hits.ids.index("ghana")].mentions[0].source_id == "temple"
    silent = index.recall(vector, 23, text="which film is about a kiss", explain=True, without=["mentions"])
    assert {(hit.mentions, hit.sources.get("mentions")) for hit in silent} == {(None, None)}
    of_memory = index.recall("temple", 23, explain=True)
    assert of_memory.ids[0] == "ghana"
    assert repr(of_memory[of_memory.ids.index("kiss")].mentions[0]) == 'names "Shirley Temple"'


def test_without_names_nothing_changes(anywhere):
    texts = ["see [a](x)", "Shirley Temple was here", "Shirley Temple again", "https://x.org/b", "kiss the title"]
    metadatas = [{"kind": "title"}, {}, {"title": None}, {"other": "Shirley Temple"}, {"aliases": []}]
    answers = []
    for names in (None, ()):
        index = anywhere(DIM, names=names)
        index.add(_vectors(5), ids=list("abcde"), texts=texts, metadatas=metadatas)
        assert not index._store.database.mentions.known
        assert _state(index) == ([], [], [])
        answers.append(index.recall(np.ones(DIM), 5, text="shirley temple kiss", explain=True))
    assert list(answers[0]) == list(answers[1])
    assert [hit.mentions for hit in answers[0]] == [None] * 5


def test_names_that_are_switched_off_count_nothing(anywhere):
    off, none = _films(anywhere, names=()), anywhere(DIM)
    _fill(none)
    none.add(
        _vectors(3),
        ids=list(FILMS),
        texts=[text for _, text in FILMS.values()],
        metadatas=[{"other": title} for title, _ in FILMS.values()],
    )
    for question in ("shirley temple", "film"):
        one, other = off.recall(np.ones(DIM), text=question), none.recall(np.ones(DIM), text=question)
        assert one.ids == other.ids
        assert one.scores.tolist() == other.scores.tolist()


STEPS = st.lists(st.sampled_from(["add", "delete", "rename", "observe", "ask"]), max_size=6)


@settings(max_examples=40, deadline=None)
@given(st.randoms(use_true_random=False), STEPS, st.sampled_from([2, 1000]))
def test_mentions_are_those_of_an_index_built_at_once(random: random.Random, steps: list[str], many: int):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pam_retriever.store.index_mentions.MANY", many)
        _change_and_compare(random, steps)


def _change_and_compare(random: random.Random, steps: list[str]):
    words = ("Red", "Blue Sea", "Red Sea", "Oslo", "plain")

    def memory():
        text = " meets ".join(random.sample(words, 3)) if random.random() < 0.9 else None
        return text, {"title": random.choice(words)} if random.random() < 0.6 else {}

    index, there = PredictiveAssociativeIndex(DIM), {}
    for at, step in enumerate(["add", *steps]):
        some = random.sample(sorted(there), min(len(there), 2))
        if step == "ask":
            index.recall(np.ones(DIM), text="Red Sea")
        elif step == "delete":
            index.delete(some)
            there = {id: one for id, one in there.items() if id not in some}
        elif step == "observe":  # a trajectory of vectors adds or replaces memories
            states = random.choice(range(at))
            index.observe(Trajectory(id=str(states), vectors=_vectors(2)))
            there |= {f"{states}/{position}": (None, {}) for position in range(2)}
        else:
            new = {id: memory() for id in (some if step == "rename" else [f"{at}/{n}" for n in range(2)])}
            if new:
                index.add(
                    _vectors(len(new)), list(new), [text for text, _ in new.values()], [m for _, m in new.values()]
                )
            there |= new
    whole = PredictiveAssociativeIndex(DIM)
    if there:
        texts, metadatas = [text for text, _ in there.values()], [metadata for _, metadata in there.values()]
        whole.add(_vectors(len(there)), list(there), texts, metadatas)
    if whole._store.database.mentions.known:
        assert _state(index) == _state(whole)
    else:  # without names, stored links and phrases may belong to earlier texts
        assert _state(index)[0] == []


def test_many_at_once_are_as_one_by_one(anywhere, monkeypatch):
    monkeypatch.setattr("pam_retriever.store.index_mentions.MANY", 2)
    at_once, one_by_one = anywhere(DIM), anywhere(DIM)
    _add(at_once, *FILMS)
    _add(at_once, "kiss", "temple", "ghana")
    for id in FILMS:
        _add(one_by_one, id)
    assert _state(at_once) == _state(one_by_one)


@pytest.mark.parametrize("end", ["asked", "closed", "open"])
def test_bulks_wait_for_a_question_or_the_end_and_are_searched_once(tmp_path, monkeypatch, end):
    """Many new texts are searched for names only once: at the next question, or when the index is closed."""
    monkeypatch.setattr("pam_retriever.store.index_mentions.MANY", 2)
    index, at_once = PredictiveAssociativeIndex.open(tmp_path / "index", DIM), PredictiveAssociativeIndex(DIM)
    mentions = index._store.database.mentions
    _fill(index, 8)
    for some in (["kiss"], ["temple", "ghana"], ["filler 1", "filler 2"]):
        _add(index, *some) if some[0] in FILMS else index.add(
            _vectors(2), [f"{id} of Ghana" for id in some], ["Ghana"] * 2, [{}] * 2
        )
    _fill(at_once, 8)
    _add(at_once, *FILMS)
    at_once.add(_vectors(2), [f"filler {n} of Ghana" for n in (1, 2)], ["Ghana"] * 2, [{}] * 2)
    assert mentions.pending
    assert not len(mentions.store.mentions_of(index._store.database.memories.rows()[-3:]).rows)
    if end == "asked":
        assert index.recall(np.ones(DIM), 1, text="who was shirley temple?").ids == ["temple"]
        assert not mentions.pending
    if end != "open":
        index.close()
        index = PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True)
        assert not index._store.database.connection.fetch("SELECT 1 FROM settings WHERE key = 'mentions_waiting'")
    assert _state(index) == _state(at_once)
    index.close()


def test_the_first_names_wait_too_if_they_come_in_bulk(monkeypatch):
    """The first names of an index, in bulk, are searched for with all earlier texts at the next question."""
    monkeypatch.setattr("pam_retriever.store.index_mentions.MANY", 2)
    index, at_once = PredictiveAssociativeIndex(DIM), PredictiveAssociativeIndex(DIM)
    index.add(_vectors(2), ["old 1", "old 2"], ["Ghana", "nothing"])
    _add(index, "temple", "ghana")
    _add(index, "kiss")
    assert index._store.database.mentions.pending
    assert index.recall(np.ones(DIM), 1, text="who was shirley temple?").ids == ["temple"]
    _add(at_once, *FILMS)
    at_once.add(_vectors(2), ["old 1", "old 2"], ["Ghana", "nothing"])
    assert _state(index) == _state(at_once)


def test_a_failed_add_leaves_mentions_as_they_were(anywhere, monkeypatch):
    index = _films(anywhere)
    before = _state(index)
    monkeypatch.setattr(index._store, "reserve_disk", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        index.add(_vectors(1), ids=["new"], texts=["Ghana"], metadatas=[{"title": "Nothing of note"}])
    assert _state(index) == before


def test_mentions_are_those_of_the_index_opened_again_saved_and_loaded(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM) as index:
        _fill(index)
        _add(index, *FILMS)
        state, asked = _state(index), index.recall(np.ones(DIM), text="film of kiss and tell")
        index.save(tmp_path / "copy")
    for again in (
        PredictiveAssociativeIndex.open(tmp_path / "index"),
        PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True),
        PredictiveAssociativeIndex.load(tmp_path / "copy"),
    ):
        assert _state(again) == state
        assert list(again.recall(np.ones(DIM), text="film of kiss and tell")) == list(asked)
        again.close()
    assert check(tmp_path / "index") == []


def test_an_erased_name_leaves_no_word_behind(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM) as index:
        _fill(index)
        _add(index, *FILMS)
        index.add(_vectors(1, 3), ["secret"], ["of whom"], [{"title": "Zanzibar Quux Affair"}])
        index.erase(["secret"])
        assert not index._store.database.connection.fetch("SELECT 1 FROM beginnings WHERE words LIKE '%zanzibar%'")
        assert index._store.database.connection.fetch("SELECT 1 FROM beginnings WHERE words = 'kiss'")
    for path in (tmp_path / "index").iterdir():
        assert b"zanzibar" not in path.read_bytes().lower()


def test_a_step_that_is_appended_is_followed(anywhere):
    index = _films(anywhere)
    index.append("session", id="note", vector=np.ones(DIM), text="I met Shirley Temple", metadata={"title": "A note"})
    assert ("note", "shirley temple", 6, 14) in _state(index)[2]


def test_forgetting_takes_mentions_along():
    index = _films()
    index.prune(5)
    check_structure(index._store.database.connection)
    names = _state(index)[0]
    assert sorted(names) == sorted(FILMS[id][0].lower() for id in FILMS if id in index)


def test_repair_rebuilds_mentions(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM) as index:
        _add(index, *FILMS)
        state = _state(index)
    _change(tmp_path / "index", "DELETE FROM mentions", "UPDATE memories SET checksum = 1 WHERE id = 'ghana'")
    assert any("ghana" in line for line in repair(tmp_path / "index"))
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert "ghana" not in index
        assert [one for one in state[2] if one[1] != "ghana" and one[0] != "ghana"] == _state(index)[2]


def _format_1(folder):
    """Converts the index in a folder to format 1."""
    tables = [f"DROP TABLE {table}" for table in (*TABLES, "times", "uses", "feedback")]
    old_words = (*words.UPDATE[:4], *words.FORMAT_1)
    _change(
        folder,
        "DROP TRIGGER feedback_without_use",
        *tables,
        *old_words,
        "INSERT INTO words (rowid, text) SELECT row, text FROM memories WHERE text IS NOT NULL",
        "DELETE FROM settings WHERE key IN ('mentions', 'names')",
    )


def _change(folder, *statements):
    manifest = json.loads((folder / "manifest.json").read_text())
    path = folder / manifest["database"]
    database = sqlite3.connect(path)
    with database:
        for statement in statements:
            database.execute(statement)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    manifest["database_sha256"] = checksum_of(path)
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("first", ["write", "question"])
def test_names_of_a_folder_of_format_1_are_looked_for_once(tmp_path, first):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM) as index:
        _fill(index)
        _add(index, *FILMS)
        state, answer = _state(index), index.recall(np.ones(DIM), text="kiss and tell")
    _format_1(tmp_path / "index")
    with PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True) as index:
        assert _state(index) == ([], [], [])
        assert index.recall(np.ones(DIM), 1, text="kiss and tell").ids == ["kiss"]
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert index._store.database.mentions.pending
        if first == "write":
            _add(index, "ghana", vectors=_vectors(3)[2:])
        else:
            assert list(index.recall(np.ones(DIM), text="kiss and tell")) == list(answer)
        assert _state(index) == state
        assert not index._store.database.mentions.pending


def test_a_mention_leads_only_to_what_a_filter_leaves(anywhere):
    index = _films(anywhere)
    vector = index._store.database.memories.records(["kiss"])["kiss"].vector
    for where, steps in (({"title": {"$in": ["Kiss and Tell", "Ghana"]}}, {"kiss"}), ({"title": "Ghana"}, set())):
        hits = index.recall(vector, text="which film is about a kiss", where=where, explain=True)
        assert "temple" not in hits.ids
        assert {one.source_id for hit in hits for one in hit.mentions} <= steps
    # only Shirley Temple mentions Ghana, and the filter excludes her
    hits = index.recall(vector, text="which film", where={"title": {"$in": ["Kiss and Tell", "Ghana"]}}, explain=True)
    assert [hit.mentions for hit in hits if hit.id == "ghana"] == [()]


@pytest.mark.parametrize("most", [1.0, -1.0])
def test_a_mention_takes_no_more_from_other_evidence_than_the_scale_needs(most):
    with_names, without = _films(), _films(names=())
    vector = most * with_names.get(["ghana"])[0].vector
    hits, others = (one.recall(vector, text="who went to Ghana", k=30, explain=True) for one in (with_names, without))
    assert hits[hits.ids.index("ghana")].mentions
    similarity = {hit.id: hit.sources["similarity"] for hit in others}
    scale = {hit.sources["similarity"] / similarity[hit.id] for hit in hits if abs(similarity.get(hit.id, 0)) > 0.01}
    assert max(scale) == pytest.approx(min(scale), rel=1e-4)
    if most > 0:  # the mention alone would exceed 1
        assert (hits[0].id, hits[0].score) == ("ghana", pytest.approx(1))
        assert max(scale) < 1
    else:
        assert hits[0].score < 1
        assert max(scale) == pytest.approx(1, rel=1e-4)


def test_a_memory_has_those_it_names_before_any_fit(anywhere):
    index = _films(anywhere)
    for mode in (None, "association"):
        hits = index.recall("temple", mode=mode, explain=True)
        assert set(hits.ids[:2]) == {"kiss", "ghana"}
        assert len(hits) == (10 if mode is None else 2)  # the default mode adds similar memories
        assert list(hits.scores) == sorted(hits.scores, reverse=True)
        assert repr(hits[hits.ids.index("kiss")].mentions[0]) == 'names "Shirley Temple"'
        assert all(0 <= score <= 1 for score in hits.scores)
    assert index.recall("temple", where={"title": {"$in": ["Shirley Temple", "Ghana"]}}).ids == ["ghana"]
    assert index.recall("filler 1").ids == index.search("filler 1").ids
    assert index.recall(np.ones(DIM)).ids == index.search(np.ones(DIM)).ids
    with pytest.raises(NotFitted):
        index.recall(np.ones(DIM), mode="association")
    with pytest.raises(NotFitted):
        index.recall("temple", hops=2)
    with pytest.raises(NotFitted):
        _films(anywhere, names=()).recall("temple", mode="association")


def test_expansion_knows_mentions_before_any_fit():
    index = _films()
    brought = index.expand({"temple": 2.0, "filler 1": 1.0})
    assert set(brought) == {"kiss", "ghana"}
    assert 0 < sum(brought.values()) <= 1
    assert index.expand({"temple": 1.0}, where={"title": "Ghana"}, cue_where={}).keys() == {"ghana"}
    for options in ({"direction": "after"}, {}):
        with pytest.raises(NotFitted):
            (index if options else _films(names=())).expand({"temple": 1.0}, **options)


def test_other_names_are_taken_over(tmp_path):
    """An index that is opened with other ``names`` finds its names again by these keys, and stores them."""
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, names=("headline",)) as index:
        _fill(index)
        _add(index, *FILMS)
        assert not index._store.database.mentions.known
        with pytest.raises(NotFitted):
            index.recall("temple", mode="association")
    with pytest.raises(ReadOnlyIndex):
        PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True, names=("title",))
    with PredictiveAssociativeIndex.open(tmp_path / "index", names=["headline"], read_only=True) as index:
        assert index._store.database.mentions.naming.keys == ("headline",)
    with PredictiveAssociativeIndex.open(tmp_path / "index", names=("title",)) as index:
        assert set(index.recall("temple").ids[:2]) == {"kiss", "ghana"}
        assert _state(index)[0] == ["ghana", "kiss and tell", "shirley temple"]
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert index._store.database.mentions.naming.keys == ("title",)


def test_headings_and_patterns_of_links_are_stored_with_the_index(tmp_path):
    pytest.importorskip("re2")
    naming = Naming(headings=True, patterns=(r"[A-Z]+-\d+",))
    texts = ["# Boiler room\n\nHot, see OPS-12.", "the pump leaks", "the boiler room is locked"]
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, names=naming) as index:
        _fill(index)
        index.add(_vectors(3), ["room", "OPS-12", "note"], texts)
        assert index.recall("room", mode="association").ids[:1] == ["OPS-12"]
        assert set(index.recall("room", mode="association").ids) == {"OPS-12", "note"}
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert index._store.database.mentions.naming == naming
        index.add(_vectors(1, 5), ["late"], ["OPS-12 again, in the boiler room"])
        hits = index.recall("late", mode="association", explain=True)
        assert {str(one) for hit in hits for one in hit.mentions} == {
            '"late" names "OPS-12"',
            '"late" names "boiler room"',
        }
    with pytest.raises(InvalidInput, match="RE2"):
        PredictiveAssociativeIndex(DIM, names=Naming(patterns=(r"(a)\1",)))


def test_an_import_names_the_module_that_has_its_name():
    index = PredictiveAssociativeIndex(DIM)
    sources = {
        "shop.cart": "from shop.prices import total",
        "shop.prices": "def total(): ...",
        "shop.mail": "import smtplib",
    }
    index.add(_vectors(3), list(sources), list(sources.values()), [{"name": module} for module in sources])
    assert index.recall("shop.cart", mode="association").ids == ["shop.prices"]


@pytest.mark.parametrize(
    "names", ["title", [1], 5, lambda metadata, text: [], partial(min), Naming(keys=lambda *_: ())]
)
def test_names_that_are_neither_keys_nor_a_named_function_are_refused(names):
    with pytest.raises(InvalidInput, match="names"):
        PredictiveAssociativeIndex(DIM, names=names)


@pytest.mark.parametrize("wrong", [{"patterns": "PAM"}, {"patterns": 5}, {"headings": "no"}, {"openings": 1}])
def test_a_naming_refuses_what_it_would_misread(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        PredictiveAssociativeIndex(DIM, names=Naming(**wrong))


SESSIONS = [
    Trajectory(ids=[f"filler {(at * 4 + step) % 20}" for step in range(4)], id=f"session {at}") for at in range(10)
]


def _fitted(make=PredictiveAssociativeIndex, **options):
    """Returns the films beside experienced fillers, after a fit. No film was experienced."""
    index = _films(make, **options)
    index.fit(SESSIONS, config=QUICK, progress=False)
    return index


def test_after_a_fit_a_memory_without_experience_has_those_it_names(anywhere):
    index, silent = _fitted(anywhere), _fitted(anywhere, names=())
    before = _films(anywhere).recall("temple", mode="association")
    for mode in (None, "association"):
        hits = index.recall("temple", mode=mode, explain=True)
        assert hits.ids[:2] == before.ids
        assert hits.scores[:2] == pytest.approx(before.scores)
        assert len(hits) == 10  # the predictor's follow
        assert list(hits.scores) == sorted(hits.scores, reverse=True)
        assert repr(hits[hits.ids.index("kiss")].mentions[0]) == 'names "Shirley Temple"'
        assert [hit.mentions for hit in hits[2:]] == [()] * 8
        assert [set(hit.sources) for hit in hits[:2]] == [{"mentions"}] * 2
        assert [sum(hit.sources.values()) for hit in hits] == pytest.approx(list(hits.scores), abs=1e-6)
        assert all(0 <= hit.confidence <= 1 for hit in hits)
    rest = [id for id in silent.recall("temple", 22).ids if id not in before.ids]
    assert [id for id in index.recall("temple", 22).ids if id not in before.ids] == rest
    assert list(index.recall("temple", without=["mentions"])) == list(silent.recall("temple"))
    others = list(SOURCES)
    assert index.recall("temple", without=others).ids == before.ids
    with pytest.raises(InvalidInput, match="every source"):
        index.recall("temple", without=[*others, "mentions"])
    with pytest.raises(InvalidInput, match="sources of this answer"):
        silent.recall("temple", without=["mentions"])
    low = float(before.scores[-1])
    assert index.recall("temple", min_score=low * 0.99).ids == before.ids
    assert index.recall("temple", 1).ids == before.ids[:1]


def test_after_a_fit_memories_with_experience_and_vectors_answer_as_without_names(anywhere):
    index, silent = _fitted(anywhere), _fitted(anywhere, names=())
    every = [f"filler {at}" for at in range(20)]
    alone = index.recall(every, explain=True)
    assert [list(hits) for hits in alone] == [list(hits) for hits in silent.recall(every, explain=True)]
    together = index.recall([*every, "temple", "kiss"], explain=True)
    assert [list(hits) for hits in together[:20]] == [list(hits) for hits in alone]
    assert [hits.ids for hits in together[20:]] == [index.recall(id).ids for id in ("temple", "kiss")]
    assert list(index.recall(np.ones(DIM))) == list(silent.recall(np.ones(DIM)))
    for options in ({"direction": "after"}, {"mode": "specific"}, {"mode": "similarity"}):
        assert list(index.recall("temple", **options)) == list(silent.recall("temple", **options))
    index.observe(["temple", "filler 1"])  # from now on links answer
    assert index.recall("temple").ids[0] == "filler 1"


def test_several_hops_from_a_memory_without_experience_begin_with_those_it_names(anywhere):
    index, silent = _fitted(anywhere), _fitted(anywhere, names=())
    index.observe(["ghana", "filler 3"])
    silent.observe(["ghana", "filler 3"])
    hits = index.recall("temple", hops=2)
    assert (hits[0].id, hits[0].path) == ("filler 3", ("ghana",))
    assert next(hit.id for hit in hits if not hit.path) == "ghana"
    assert not {"filler 3", "ghana"} & set(silent.recall("temple", hops=2).ids[:2])
    assert list(index.recall("filler 1", hops=2)) == list(silent.recall("filler 1", hops=2))
    assert list(index.recall("temple", hops=2, direction="after")) == list(
        silent.recall("temple", hops=2, direction="after")
    )


def test_after_a_fit_mentions_lead_only_to_what_filters_and_tenants_leave():
    index = _fitted()
    hits = index.recall("temple", where={"title": {"$in": ["Shirley Temple", "Ghana"]}}, explain=True)
    assert hits.ids == ["ghana"]
    # Temple, who names Ghana, is not allowed to lead there
    hits = index.recall("kiss", where={"title": "Ghana"}, cue_where={}, explain=True)
    assert [hit.mentions for hit in hits] in ([None], [()])
    assert not index.recall("temple", faithful=True).ids
    answer = index.recall("temple")
    _add(index.tenant("other"), *FILMS)  # its memories have the same ids
    index.tenant("other").add(_vectors(1, 7), ["fan"], ["A fan of Shirley Temple"], [{"title": "Fan"}])
    assert list(index.recall("temple")) == list(answer)


def test_expansion_follows_mentions_after_a_fit():
    index, silent = _fitted(), _fitted(names=())
    brought = index.expand({"temple": 2.0, "filler 1": 1.0}, k=None)
    assert set(list(brought)[:2]) == {"kiss", "ghana"}
    assert 0 < sum(brought.values()) <= 1 + 1e-6
    assert index.expand({"temple": 1.0}, where={"title": "Ghana"}, cue_where={}).keys() == {"ghana"}
    assert index.expand([{"filler 1": 1.0}]) == silent.expand([{"filler 1": 1.0}])
    assert index.expand({"temple": 1.0}, direction="after") == silent.expand({"temple": 1.0}, direction="after")


def test_a_passage_that_names_its_own_document_is_shown_by_its_id():
    """Passages of a document have its title: '"Recipes" names "Recipes"' would say nothing."""
    index = PredictiveAssociativeIndex(dim=DIM)
    texts = ["All recipes of the canteen", "Toast the rice, then add hot stock", "Whites at room temperature"]
    titles = [{"title": "Recipes"}] * 2 + [{"title": "Meringue"}]
    index.add(np.eye(DIM)[:3], ["head", "risotto", "meringue"], texts, titles)
    hits = index.recall(np.eye(DIM)[0], 3, text="canteen rice", explain=True)
    shown = [repr(one) for hit in hits if hit.id == "risotto" for one in hit.mentions or ()]
    assert shown == ['"head" names "recipes"']


def test_a_search_of_all_texts_finds_the_names_of_a_memory_by_an_index(monkeypatch):
    """Without it each batch reads all names: a million memories took a quarter longer."""
    named, plans = SQLiteMentions.named, []

    def noted(self, rows):
        plans.append(str(self._sql.fetch("EXPLAIN QUERY PLAN SELECT 1 FROM called WHERE number > 0 AND row IN (1, 2)")))
        return named(self, rows)

    monkeypatch.setattr(SQLiteMentions, "named", noted)
    index = PredictiveAssociativeIndex(4)
    index.add(np.eye(4), list("abcd"), ["About Bob Hill"] * 4, [{"title": f"Bob {name}"} for name in "abcd"])
    with index._store.database.transaction():
        index._store.database.mentions.build()
    assert plans
    assert all("called_of_memory" in plan for plan in plans)
