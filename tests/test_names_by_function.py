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
    with pytest.raises(ReadOnlyIndex):
        PredictiveAssociativeIndex.open(tmp_path / "index", names=ticket, read_only=True)
    with PredictiveAssociativeIndex.open(tmp_path / "index", names=ticket) as index:
        assert set(_named(index)) == {"boiler", "pump"}
    with PredictiveAssociativeIndex.open(tmp_path / "index", names=("title",)) as index:
        assert _named(index) == {}
        index.update("tea", text="Ticket Number 7, again")


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
    repair(tmp_path / "index")
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
