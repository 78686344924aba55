"""Names that a function of the user makes of metadata and text."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from pam_retriever import InvalidInput, Naming, PredictiveAssociativeIndex, ReadOnlyIndex
from pam_retriever.store.folder.repair import repair

DIM = 8
TICKETS = {
    "boiler": (7, "The boiler leaks."),
    "pump": (8, "The pump stopped as in Ticket Number 7."),
    "tea": (9, "Tea"),
}


def ticket(metadata, text):
    """Returns the name of a ticket."""
    return f"Ticket Number {metadata['number']}" if "number" in metadata else None


def several(metadata, text):
    """Returns the first words of a text, and the name of a ticket."""
    return [" ".join((text or "").split()[:2]), f"Ticket Number {metadata['number']}"]


def failing(metadata, text):
    """Knows only numbers."""
    return [f"Ticket Number {metadata['number']}"]


def wrong(metadata, text):
    """Returns no strings."""
    return [7]


def _vectors(n, seed=0):
    return np.random.default_rng(seed).normal(size=(n, DIM)).astype(np.float32)


def _add(index, *ids):
    index.add(
        _vectors(len(ids), len(index)),
        ids=list(ids),
        texts=[TICKETS[id][1] for id in ids],
        metadatas=[{"number": TICKETS[id][0]} for id in ids],
    )


def _fill(index):
    """Adds memories without names: a name that half of the texts hold would count nothing."""
    index.add(_vectors(20, 9), ids=[f"filler {at}" for at in range(20)], texts=["nothing of note"] * 20)


def _fill_numbered(index):
    """As ``_fill``, for functions that read a number."""
    index.add(_vectors(20, 9), texts=["nothing of note"] * 20, metadatas=[{"number": 100 + at} for at in range(20)])


def _named(index):
    """Returns the evidence by mention of the question that names ticket 7."""
    hits = index.recall(np.ones(DIM), k=30, text="what happened after ticket number 7?", explain=True)
    return {hit.id: [repr(mention) for mention in hit.mentions] for hit in hits if hit.mentions}


EVIDENCE = ['the question names "ticket number 7"', '"Ticket Number 8" names "Ticket Number 7"']


def test_a_function_names_memories_wherever_they_are_stored(anywhere):
    index = anywhere(DIM, names=ticket)
    _add(index, *TICKETS)
    assert _named(index)["boiler"] == EVIDENCE
    assert index.recall("pump", mode="association").ids[0] == "boiler"  # before any fit


def test_several_names_and_texts(anywhere):
    index = anywhere(DIM, names=Naming(keys=several))
    _add(index, *TICKETS)
    hits = index.recall(np.ones(DIM), text="where is the boiler?", explain=True)
    assert {hit.id for hit in hits if hit.mentions} == {"boiler", "pump"}  # and the pump names it


def test_an_index_answers_without_its_function_and_takes_no_memories(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, names=ticket) as index:
        _fill(index)
        _add(index, *TICKETS)
        before = _named(index)
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert set(_named(index)) == set(before)
        with pytest.raises(InvalidInput, match=r"test_names_by_function\.ticket.*names=function"):
            index.add(_vectors(1), ids=["new"], texts=["new"])
        with pytest.raises(InvalidInput, match=r"names=function"):
            index.update("tea", text="Ticket Number 7, again")
        assert len(index) == 23
        index.delete("tea")
        index.erase(ids=["boiler"])  # the pump's text is searched again
        assert _named(index) == {}
    with PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True, names=ticket) as reader:
        assert "pump" in reader and len(reader) == 21
    with PredictiveAssociativeIndex.open(tmp_path / "index", names=ticket) as index:
        _add(index, "boiler")
        assert EVIDENCE[0] in _named(index)["boiler"]


def test_another_function_is_a_change_of_names(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, names=("title",)) as index:
        _add(index, *TICKETS)
        assert _named(index) == {}
    for names in (ticket, ("headline",)):
        with pytest.raises(ReadOnlyIndex, match=r"names=.*other names"):
            PredictiveAssociativeIndex.open(tmp_path / "index", names=names, read_only=True)
    with PredictiveAssociativeIndex.open(tmp_path / "index", names=ticket) as index:
        assert set(_named(index)) == {"boiler", "pump"}
    with PredictiveAssociativeIndex.open(tmp_path / "index", names=("title",)) as index:
        assert _named(index) == {}
        index.update("tea", text="Ticket Number 7, again")


async def later(metadata, text):
    """Names nothing when it is called."""
    return metadata["number"]


def taking(metadata, text):
    """Takes from the metadata what it reads."""
    metadata.pop("source", None)
    return metadata.pop("title", None)


def an_array(metadata, text):
    """Returns the names in an array."""
    return np.array(several(metadata, text))


def not_given(metadata, text):
    """Returns no name, as ``and`` does."""
    return "headline" in metadata and metadata["headline"]


class Listed(list):
    """A list of tickets that names them; an empty list is false."""

    def __call__(self, metadata, text):
        return ticket(metadata, text)


class Awaited:
    """An object that names nothing when it is called."""

    async def __call__(self, metadata, text):
        return "Ticket Number 7"


@pytest.mark.parametrize("function", [later, Awaited(), lambda metadata, text: None, str.upper])
def test_what_cannot_name_is_refused_at_once(function):
    with pytest.raises(InvalidInput, match="a function with a name"):
        PredictiveAssociativeIndex(DIM, names=function)


@pytest.mark.parametrize("keys", [np.array(["title", "name"]), np.array(["title"]), "title", 7, {"title"}])
def test_keys_are_a_list_or_a_tuple(keys):
    with pytest.raises(InvalidInput, match="keys of the metadata, or a function"):
        PredictiveAssociativeIndex(DIM, names=keys)


def test_arrays_of_names_and_no_name():
    index = PredictiveAssociativeIndex(DIM, names=an_array)
    _add(index, *TICKETS)
    assert set(_named(index)) == {"boiler", "pump"}
    index = PredictiveAssociativeIndex(DIM, names=not_given)
    _add(index, *TICKETS)
    assert _named(index) == {}


def test_a_callable_that_is_false_is_a_function_like_others():
    index = PredictiveAssociativeIndex(DIM, names=Listed())
    assert index._store.database.mentions.naming.openings


@pytest.mark.parametrize(
    ("value", "said"), [(7, "returned 7"), (b"Ticket", "returned b'Ticket'"), ([None], "returned None")]
)
def test_a_value_that_is_no_name_is_named(value, said):
    def returning(metadata, text):
        return value

    index = PredictiveAssociativeIndex(DIM, names=returning)
    with pytest.raises(InvalidInput, match=said):
        _add(index, "tea")
    assert len(index) == 0


def test_a_function_may_change_the_metadata_that_it_gets():
    index = PredictiveAssociativeIndex(DIM, names=taking)
    index.add(
        _vectors(2),
        ids=["boiler", "pump"],
        texts=["The boiler leaks.", "See [this](notes/boiler.md)."],
        metadatas=[{"title": "Boiler", "source": "notes/boiler.md"}, {"title": "Pump"}],
    )
    _fill(index)
    assert index.recall("pump", mode="association", k=1).ids == ["boiler"]
    assert index.find(where={"title": "Boiler"})[0].metadata == {"title": "Boiler", "source": "notes/boiler.md"}


@pytest.mark.parametrize("call", ["add", "delete", "observe", "close", "erase", "feedback", "save"])
def test_a_function_that_changes_its_index_stores_nothing_and_breaks_nothing(tmp_path, call):
    calls = {
        "add": lambda index: index.add(_vectors(1), ids=["inner"], texts=["inner"], metadatas=[{"number": 1}]),
        "delete": lambda index: index.delete("tea"),
        "observe": lambda index: index.observe(["tea", "pump"]),
        "close": lambda index: index.close(),
        "save": lambda index: index.save(tmp_path / "saved"),
        "erase": lambda index: index.erase(ids=["tea"]),
        "feedback": lambda index: index.feedback(_vectors(1)[0], {"tea": 1}),
    }
    begun = []

    def reentrant(metadata, text):
        if metadata["number"] == 7:
            begun.append(call)
            calls[call](index)
        return ticket(metadata, text)

    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, names=reentrant) as index:
        _add(index, "pump", "tea")
        with pytest.raises(InvalidInput, match="changed"):
            _add(index, "boiler")
        assert begun == [call]
        assert sorted(record.id for record in index.find()) == ["pump", "tea"]
        assert set(index.recall(np.ones(DIM), k=9, text="ticket number 8").ids) == {"pump", "tea"}
        _fill_numbered(index)
        index.update("tea", text="Ticket Number 8, again")
        assert index.recall("tea", mode="association", k=1).ids == ["pump"]
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert len(index) == 22


def test_after_a_refused_change_a_function_goes_on_wherever_the_index_is(anywhere):
    refused = []

    def meddling(metadata, text):
        try:
            index.delete("boiler")
        except InvalidInput as error:
            refused.append(error)
        return ticket(metadata, text)

    index = anywhere(DIM, names=meddling)
    _add(index, *TICKETS)
    assert len(refused) >= 3
    assert _named(index)["boiler"] == EVIDENCE


def test_a_function_may_ask_its_index(tmp_path):
    def asking(metadata, text):
        assert len(index.recall(np.ones(DIM), k=1)) <= len(index)
        return ticket(metadata, text)

    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, names=asking) as index:
        _add(index, *TICKETS)
        assert set(_named(index)) == {"boiler", "pump"}


def interrupted(metadata, text):
    """Stands for Ctrl-C."""
    raise KeyboardInterrupt


@pytest.mark.parametrize(("function", "error"), [(failing, InvalidInput), (interrupted, KeyboardInterrupt)])
def test_a_function_that_fails_for_a_stored_memory_takes_no_names_away(tmp_path, function, error):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, names=ticket) as index:
        _fill(index)
        _add(index, *TICKETS)
    with pytest.raises(error):
        PredictiveAssociativeIndex.open(tmp_path / "index", names=function)
    with PredictiveAssociativeIndex.open(tmp_path / "index", names=ticket) as index:  # not locked
        assert EVIDENCE[0] in _named(index)["boiler"]


def test_a_function_that_fails_takes_no_names_from_others_on_an_engine():
    from engine_servers import fresh_engine

    engine = fresh_engine("pgvector")
    with PredictiveAssociativeIndex(DIM, backend=engine, names=ticket) as index:
        _fill(index)
        _add(index, *TICKETS)
        with pytest.raises(InvalidInput, match="failing"):
            PredictiveAssociativeIndex(backend=engine, names=failing)
        assert EVIDENCE[0] in _named(index)["boiler"]
        index.update("tea", text="Ticket Number 7, again")


def test_a_function_that_was_passed_has_named_all_when_the_index_is_closed(tmp_path):
    """Nobody else may have the function: a later process would ask an index without names."""
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, names=("headline",)) as index:
        _fill(index)
        _add(index, *TICKETS)
    PredictiveAssociativeIndex.open(tmp_path / "index", names=ticket).close()
    for read_only in (True, False):
        with PredictiveAssociativeIndex.open(tmp_path / "index", read_only=read_only) as index:
            assert set(_named(index)) == {"boiler", "pump"}


def test_a_tenant_keeps_its_names_until_the_function_is_passed(tmp_path):
    def headline(metadata, text):
        return None

    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, names=ticket) as index:
        _fill(index.tenant("ann"))
        _add(index.tenant("ann"), *TICKETS)
    PredictiveAssociativeIndex.open(tmp_path / "index", names=headline).close()  # the tenant was not opened
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert set(_named(index.tenant("ann"))) == {"boiler", "pump"}
    with PredictiveAssociativeIndex.open(tmp_path / "index", names=headline) as index:
        assert _named(index.tenant("ann")) == {}


@pytest.mark.parametrize("function", [failing, wrong, Naming(keys=failing)])
def test_a_function_that_fails_stores_nothing(tmp_path, function):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, names=function) as index:
        with pytest.raises(InvalidInput, match=r"test_names_by_function\.(failing|wrong)"):
            index.add(_vectors(2000), texts=["a text"] * 2000)  # a bulk, whose search waits with metadata keys
        assert len(index) == 0
        assert len(index.recall(np.ones(DIM), text="a text")) == 0
    with PredictiveAssociativeIndex.open(tmp_path / "index", names=function) as index:
        assert len(index) == 0


def test_tenants_share_the_function(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, names=ticket) as index:
        for name in ("ann", "ben"):
            _add(index.tenant(name), *TICKETS)
        assert set(_named(index.tenant("ann"))) == {"boiler", "pump"}
    for follow in (False, True):
        with PredictiveAssociativeIndex.open(tmp_path / "index", read_only=True, follow=follow, names=ticket) as index:
            assert _named(index.tenant("ann"))["boiler"] == EVIDENCE  # by the names, not by ids
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:
        assert set(_named(index.tenant("ben"))) == {"boiler", "pump"}
        for name in ("ben", "eve"):  # a new tenant has the same names
            with pytest.raises(InvalidInput, match="names=function"):
                _add(index.tenant(name), "tea")


def test_a_copy_and_a_repaired_index_are_named_again(tmp_path):
    with PredictiveAssociativeIndex.open(tmp_path / "index", DIM, names=ticket) as index:
        _fill(index)
        _add(index, *TICKETS)
        index.save(tmp_path / "saved")
    loaded = PredictiveAssociativeIndex.load(tmp_path / "saved", names=ticket)
    loaded.update("tea", text="Tea after Ticket Number 7")
    assert set(_named(loaded)) == {"boiler", "pump", "tea"}
    file = next((tmp_path / "index").glob("memories-*.sqlite"))
    damaged = bytearray(file.read_bytes())
    damaged[-4096:] = bytes(4096)
    file.write_bytes(damaged)
    assert "kept 23 memories" in str(repair(tmp_path / "index"))
    with PredictiveAssociativeIndex.open(tmp_path / "index") as index:  # without the function nothing is lost
        index.recall(np.ones(DIM), text="what happened after ticket number 7?")
        assert len(index) == 23
    with PredictiveAssociativeIndex.open(tmp_path / "index", names=ticket) as index:
        assert set(_named(index)) == {"boiler", "pump"}


def test_another_process_passes_the_same_function(tmp_path):
    """The name of a function is the same in every process: nothing is searched again."""
    code = """
import sys
sys.path.insert(0, {tests!r})
from pathlib import Path
from pam_retriever import PredictiveAssociativeIndex
import test_names_by_function as here
with PredictiveAssociativeIndex.open(Path({folder!r}), 8, names=here.ticket) as index:
    here._add(index, *here.TICKETS)
"""
    from pathlib import Path

    folder = tmp_path / "index"
    code = code.format(tests=str(Path(__file__).parent), folder=str(folder))
    subprocess.run([sys.executable, "-c", code], check=True)
    with PredictiveAssociativeIndex.open(folder, names=ticket, read_only=True) as reader:
        assert set(_named(reader)) == {"boiler", "pump"}
