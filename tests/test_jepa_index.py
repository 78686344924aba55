"""An index with an encoder accepts dicts, stores them unchanged, and answers while it re-encodes them."""

from __future__ import annotations

import json
import sqlite3
import threading
from contextlib import closing

import numpy as np
import pytest
import torch
from torch import nn

from pam_retriever import FitConfig, InvalidInput, PredictiveAssociativeIndex
from pam_retriever.errors import IndexFormatError, ReadOnlyIndex
from pam_retriever.jepa import CompositeEncoder, Modality, OutwardPredictor
from pam_retriever.model.forward import PredictorConfig
from pam_retriever.model.predictor import Predictor
from pam_retriever.store.folder.repair import check, repair

TINY = FitConfig(hidden=32, passes=20)


def encoder_of(seed: int = 0, dim: int = 16) -> CompositeEncoder:
    return CompositeEncoder(
        {
            "image": Modality.image((1, 8, 8)),
            "place": Modality.vector(3),
            "speaker": Modality.category(["Ada", "Ben"]),
            "time": Modality.time(),
        },
        dim=dim,
        width=16,
        seed=seed,
    )


def observe(count: int, seed: int = 0) -> list[dict[str, object]]:
    random = np.random.default_rng(seed)
    moments: list[dict[str, object]] = [
        {
            "image": random.integers(0, 255, (1, 8, 8)),
            "place": random.standard_normal(3),
            "speaker": ["Ada", "Ben"][at % 2],
            "time": float(random.uniform(0, 1e9)),
        }
        for at in range(count)
    ]
    for at in range(0, count, 5):
        del moments[at]["image"]
    return moments


IDS = [f"m{at:02}" for at in range(30)]


@pytest.fixture
def index() -> PredictiveAssociativeIndex:
    index = PredictiveAssociativeIndex(encoder=encoder_of())
    index.add(observe(30), IDS)
    return index


def vectors_of(index: PredictiveAssociativeIndex, ids: list[str] = IDS) -> np.ndarray:
    return np.stack([record.vector for record in index.get(ids)])


def test_memories_and_cues_are_encoded(index):
    moments = observe(30)
    assert index.dim == 16
    np.testing.assert_allclose(vectors_of(index), encoder_of().encode(moments), atol=1e-5)
    assert index.search(moments[3], k=1)[0].id == "m03"
    assert [hits[0].id for hits in index.search(moments[:4], k=1)] == IDS[:4]
    assert index.search(vectors_of(index)[7], k=1)[0].id == "m07"
    index.fit([IDS[:15], IDS[15:]], config=TINY, progress=False)
    by_dict = index.recall(moments[3], k=5)
    assert [hit.id for hit in by_dict] == [hit.id for hit in index.recall("m03", k=5)]


def test_repr(index):
    assert "30 memories of image, place, speaker, time" in repr(index)
    assert index.encoder is not None and index.outward is None
    assert PredictiveAssociativeIndex(dim=3).encoder is None


def test_columns_give_what_rows_give(index):
    moments = observe(30)
    columns = {name: [moment.get(name) for moment in moments] for name in ("image", "place", "speaker", "time")}
    other = PredictiveAssociativeIndex(encoder=encoder_of())
    other.add(columns, IDS)
    np.testing.assert_array_equal(vectors_of(other), vectors_of(index))


@pytest.mark.parametrize("background", [False, True])
def test_all_memories_move_to_the_new_encoder(index, background):
    index.fit([IDS], config=TINY, progress=False)
    moved = encoder_of(seed=1)
    outward = OutwardPredictor(16, actions=2)
    assert index.reencode(moved, outward=outward, background=background, progress=False).result() == 30
    moments = observe(30)
    np.testing.assert_allclose(vectors_of(index), moved.encode(moments), atol=1e-5)
    assert index.search(moments[3], k=1)[0].id == "m03"
    assert index.outward is not None
    # the stored observations are unchanged: the first encoder makes the same vectors as before
    index.reencode(encoder_of(), progress=False)
    np.testing.assert_allclose(vectors_of(index), encoder_of().encode(moments), atol=1e-5)


class SlowEncoder(nn.Module):
    """Waits for a signal before it encodes, so that a test can use the index meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def __deepcopy__(self, memo: dict[int, object]) -> SlowEncoder:
        twin = SlowEncoder()
        twin.load_state_dict(self.state_dict())
        twin.begun, twin.go_on = self.begun, self.go_on
        return twin

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.begun.set()
        assert self.go_on.wait(30)
        return self.layer(x)


def slow_encoder(seed: int) -> CompositeEncoder:
    torch.manual_seed(seed)
    return CompositeEncoder({"place": Modality.custom(SlowEncoder(), (3,), 4)}, dim=8, seed=seed)


def test_the_index_answers_in_the_old_space_until_the_new_one_is_complete():
    positions = np.random.default_rng(0).standard_normal((20, 3))
    index = PredictiveAssociativeIndex(encoder=slow_encoder(0))
    ids = index.add({"place": positions}, [f"p{at}" for at in range(20)])
    before = vectors_of(index, ids)
    moved = slow_encoder(1)
    gate: SlowEncoder = moved.senses["place"]
    gate.go_on.clear()
    gate.begun.clear()
    future = index.reencode(moved, background=True, progress=False)
    assert gate.begun.wait(30)
    # during the move the index answers, adds, replaces and deletes
    np.testing.assert_array_equal(vectors_of(index, ids), before)
    for at in range(20):
        assert index.search({"place": positions[at]}, k=1)[0].id == f"p{at}"
    new = np.random.default_rng(1).standard_normal((2, 3))
    index.add({"place": new}, ["new", "p3"])
    index.delete("p5")
    assert index.search({"place": new[0]}, k=1)[0].id == "new"
    gate.go_on.set()
    assert future.result(30) == 20
    expected = {f"p{at}": positions[at] for at in range(20) if at != 5} | {"new": new[0], "p3": new[1]}
    assert len(index) == len(expected)
    found = vectors_of(index, list(expected))
    np.testing.assert_allclose(found, moved.encode({"place": np.stack(list(expected.values()))}), atol=1e-5)
    for id, position in expected.items():
        assert index.search({"place": position}, k=1)[0].id == id


def test_close_waits_until_the_new_space_is_complete(tmp_path):
    """It closed the index at once, and everything that was encoded was lost."""
    positions, ids = np.random.default_rng(0).standard_normal((20, 3)), [f"p{at}" for at in range(20)]
    moved = slow_encoder(1)
    gate: SlowEncoder = moved.senses["place"]
    with PredictiveAssociativeIndex.open(tmp_path / "i", encoder=slow_encoder(0)) as index:
        index.add({"place": positions}, ids)
        gate.go_on.clear()
        gate.begun.clear()
        future = index.reencode(moved, background=True, progress=False)
        assert gate.begun.wait(30)
        threading.Timer(0.05, gate.go_on.set).start()
    assert future.done()
    assert future.result() == 20
    with PredictiveAssociativeIndex.open(tmp_path / "i", encoder=slow_encoder(0)) as index:
        np.testing.assert_allclose(vectors_of(index, ids), moved.encode({"place": positions}), atol=1e-5)


def test_a_failed_move_changes_nothing(index):
    before = vectors_of(index)
    index.add(np.ones((1, 16)), ["vector"])
    with pytest.raises(InvalidInput, match=r"no observations, of 1 memory.*vector"):
        index.reencode(encoder_of(seed=1), progress=False)
    np.testing.assert_array_equal(vectors_of(index), before)
    index.add([{"speaker": "Ada"}], ["vector"])  # its observation replaces the vector
    assert index.reencode(encoder_of(seed=1), progress=False).result() == 31
    index.add(np.ones((1, 16)), ["m00"])  # a vector replaces the observation
    with pytest.raises(InvalidInput, match="m00"):
        index.reencode(encoder_of(seed=1), progress=False)


def test_saved_and_loaded_with_its_encoder(index, tmp_path):
    index.fit([IDS], config=TINY, progress=False)
    index.reencode(encoder_of(seed=1), outward=OutwardPredictor(16, action_dim=2), progress=False)
    index.save(tmp_path / "saved")
    moments = observe(30)
    with PredictiveAssociativeIndex.open(tmp_path / "durable", encoder=encoder_of()) as durable:
        durable.add(moments, IDS)
        durable.reencode(encoder_of(seed=1), progress=False)
    loaded = PredictiveAssociativeIndex.load(tmp_path / "saved")
    assert loaded.outward is not None and loaded.outward.action_dim == 2
    with PredictiveAssociativeIndex.open(tmp_path / "durable") as durable:
        for other in (loaded, durable):
            np.testing.assert_array_equal(vectors_of(other), vectors_of(index))
            assert other.search(moments[3], k=1)[0].id == "m03"
    assert [h.id for h in loaded.recall(moments[3], k=5)] == [h.id for h in index.recall(moments[3], k=5)]


def test_custom_modules_are_needed_again(tmp_path):
    """Custom modules are not saved; ``load`` needs an encoder with the same modules."""

    def encoder(features: int = 4) -> CompositeEncoder:
        return CompositeEncoder({"place": Modality.custom(nn.Linear(3, features), (3,), features)}, dim=8)

    first = encoder()
    index = PredictiveAssociativeIndex(encoder=first)
    index.add([{"place": [1, 2, 3]}, {"place": [3, 2, 1]}], ["a", "b"])
    index.save(tmp_path)
    with pytest.raises(InvalidInput, match=r"modules of your own for \['place'\]"):
        PredictiveAssociativeIndex.load(tmp_path)
    with pytest.raises(InvalidInput, match="differs from the saved one"):
        PredictiveAssociativeIndex.load(tmp_path, encoder=encoder(5))
    loaded = PredictiveAssociativeIndex.load(tmp_path, encoder=encoder())
    np.testing.assert_array_equal(loaded.encoder.encode([{"place": [1, 2, 3]}]), first.encode([{"place": [1, 2, 3]}]))


def test_references_are_kept_and_read_when_encoded(tmp_path):
    """An index stores references to files, and reads the files each time it encodes them."""

    def load(names: list[str]) -> np.ndarray:
        return np.stack([np.load(tmp_path / name) for name in names])

    for at in range(3):
        np.save(tmp_path / f"{at}.npy", np.eye(3)[at])
    encoder = CompositeEncoder(
        {"file": Modality.custom(nn.Linear(3, 4), (3,), 4, loader=load), "n": Modality.vector(2)}, 8
    )
    index = PredictiveAssociativeIndex(encoder=encoder)
    index.add([{"file": "0.npy"}, {"file": "1.npy", "n": [1, 2]}, {"n": [2, 1]}], ["a", "b", "c"])
    np.save(tmp_path / "0.npy", np.eye(3)[2])
    index.reencode(encoder, progress=False)
    assert index.search({"file": "2.npy"}, k=1)[0].id == "a"


@pytest.mark.parametrize(
    ("observed", "message"),
    [
        ([{"smell": [1.0]}], "modality 'smell'"),
        ([{"place": [1.0, 2.0]}], r"shape \(2,\)"),
        ([{"place": [1.0, np.nan, 2.0]}], "NaN or infinity"),
        ([{"place": [1e300, 0, 0]}], "float32 can hold"),
        ([{"image": np.full((1, 8, 8), 300)}], "uint8 can hold"),
        ([{"image": np.full((1, 8, 8), 0.7)}], "hold fractions"),
        ([{"place": "far"}], "array of numbers"),
        ([{"place": ["1", "2", "3"]}], r"array of numbers \(str"),
        ([{"time": np.datetime64("2026-05-02")}], "array of numbers"),
        ([{"speaker": "Cem"}], "'Cem'"),
        ([{"place": [1, 2, 3]}, {}], "Observation 1 of add has no modality"),
        ([{"place": None}], "no modality"),
        ({"place": np.ones((2, 3)), "speaker": ["Ada"]}, "as many of each"),
        ({"place": []}, "no observations"),
        ({"speaker": "Ada", "place": [1, 2, 3]}, "'Ada' for 'speaker'"),
        ({"time": 5.0}, "5.0 for 'time'"),
    ],
)
def test_bad_observations_store_nothing(index, observed, message):
    with pytest.raises(InvalidInput, match=message):
        index.add(observed)
    assert len(index) == 30


def test_bad_encoders(index, tmp_path):
    with pytest.raises(InvalidInput, match="has no encoder"):
        PredictiveAssociativeIndex(dim=3).add([{"place": [1, 2, 3]}])
    with pytest.raises(InvalidInput, match="dim=4 with an encoder"):
        PredictiveAssociativeIndex(4, encoder=encoder_of())
    with pytest.raises(InvalidInput, match="dim=32"):
        index.reencode(encoder_of(dim=32))
    with pytest.raises(InvalidInput, match="window=3 without a predictor"):  # it was lost when the index was closed
        index.reencode(encoder_of(), window=3)
    plain = PredictiveAssociativeIndex(dim=16)
    plain.add(np.eye(16))
    plain.save(tmp_path)
    with pytest.raises(InvalidInput, match="index of vectors"):
        PredictiveAssociativeIndex.load(tmp_path, encoder=encoder_of())
    with pytest.raises(InvalidInput, match="has no encoder"):
        plain.reencode(encoder_of())
    with pytest.raises(InvalidInput, match="has no encoder"):
        plain.search({"place": [1, 2, 3]})


def test_a_move_with_another_predictor(index, tmp_path):
    """An uncalibrated predictor gives the same recall after reopening, and the next fit begins from scratch."""
    index.fit([IDS[:15], IDS[15:]], config=TINY, progress=False)
    assert index._store.calibration is not None and index._store.associative.keys(np.array([1])).shape[1] > 32
    index.save(tmp_path / "fitted")
    plain = Predictor(PredictorConfig(16, 8, 1), torch.Generator().manual_seed(0))
    with PredictiveAssociativeIndex.open(tmp_path / "fitted") as durable:
        durable.reencode(encoder_of(seed=1), progress=False)  # keeps the predictor and its report
        assert durable._store.calibration == index._store.calibration
        durable.reencode(encoder_of(seed=1), plain, window=3, progress=False)
        expected = [(hit.id, hit.score) for hit in durable.recall("m03", k=5)]
        assert len(list((tmp_path / "fitted").glob("predictor-*"))) == 1
    assert check(tmp_path / "fitted") == []
    with PredictiveAssociativeIndex.open(tmp_path / "fitted") as durable:
        assert durable._store.calibration is None and durable._store.window == 3
        assert [(hit.id, hit.score) for hit in durable.recall("m03", k=5)] == expected
        durable.observe(["m00", "m20"])
        durable.fit(config=TINY, progress=False)
        assert durable._store.calibration is not None
        assert durable._store.associative.keys(np.array([1])).shape[1] > 32


def test_it_answers_observations_while_it_moves_elsewhere(index, tmp_path):
    """A reader goes on with its encoder while a writer moves the index to another one, until it is refreshed."""
    index.save(tmp_path / "saved")
    with PredictiveAssociativeIndex.open(tmp_path / "saved", read_only=True) as reader:
        with pytest.raises(ReadOnlyIndex):
            reader.reencode(encoder_of(seed=1))
        with PredictiveAssociativeIndex.open(tmp_path / "saved") as writer:
            writer.reencode(encoder_of(seed=1), progress=False)
            assert writer.search(observe(30)[3], k=1)[0].id == "m03"
        assert reader.search(observe(30)[3], k=1)[0].id == "m03"
        np.testing.assert_array_equal(vectors_of(reader), vectors_of(index))
        reader.refresh()
        assert reader.search(observe(30)[3], k=1)[0].score == pytest.approx(1)  # the new encoder and its vectors


def test_observations_with_words(index):
    index.add(observe(1, seed=9), ["told"], texts=["the red kettle"])
    hits = {hit.id: hit for hit in index.recall(observe(30)[3], k=31, text="kettle")}
    assert max(hits, key=lambda id: hits[id].lexical or 0) == "told"
    assert max(hits, key=lambda id: hits[id].similarity) == "m03"


def damage(folder, sql: str, *values: object) -> None:
    [path] = folder.glob("memories-*.sqlite")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql, values)
        connection.commit()


def test_check_and_repair_know_observations_and_weights(index, tmp_path):
    index.reencode(encoder_of(seed=1), outward=OutwardPredictor(16, actions=2), progress=False)
    folder = tmp_path / "saved"
    index.save(folder)
    damage(folder, "UPDATE observations SET observed = x'00' WHERE row = 4")
    damage(folder, "UPDATE weights SET safetensors = x'00' WHERE name = 'outward'")
    found = "\n".join(check(folder))
    assert "the observation of memory 'm03'" in found and "weights of the outward" in found
    done = "\n".join(repair(folder))
    assert "the observation of row 4" in done and "the weights of the outward" in done
    assert check(folder) == []
    with PredictiveAssociativeIndex.open(folder) as mended:
        assert len(mended) == 30 and mended.outward is None
        np.testing.assert_array_equal(vectors_of(mended), vectors_of(index))
        assert mended.search(observe(30)[3], k=1)[0].id == "m03"
        with pytest.raises(InvalidInput, match="m03"):
            mended.reencode(encoder_of(), progress=False)


@pytest.mark.parametrize("value", ["[]", '{"modalities": 3}', '{"dim": 16, "modalities": {"a": {}}}', '{"dim": 9}'])
@pytest.mark.parametrize("key", ["encoder", "outward"])
def test_a_damaged_description_is_refused(index, tmp_path, key, value):
    index.reencode(encoder_of(), outward=OutwardPredictor(16, actions=2), progress=False)
    index.save(tmp_path)
    damage(tmp_path, "UPDATE settings SET value = ? WHERE key = ?", value, key)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    (tmp_path / "manifest.json").write_text(json.dumps({**manifest, "database_sha256": None}))
    with pytest.raises(IndexFormatError, match="invalid description of its"):
        PredictiveAssociativeIndex.load(tmp_path)


def test_an_encoder_of_another_dimension_than_the_empty_index(tmp_path):
    PredictiveAssociativeIndex(dim=3).save(tmp_path)
    with pytest.raises(InvalidInput, match="dim=16"):
        PredictiveAssociativeIndex.open(tmp_path, encoder=encoder_of())
