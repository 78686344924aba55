"""The graphs of an HNSW index are saved in the folder, and checked and updated when they are read."""

from __future__ import annotations

import shutil
import zlib

import numpy as np
import pytest

from pam_retriever import FitConfig, PredictiveAssociativeIndex
from pam_retriever.ann import FaissBackend, Graph
from pam_retriever.ann.graph import graph_of, put_graph
from pam_retriever.store.folder.repair import check, repair

DIM, COUNT = 16, 900
VECTORS = np.random.default_rng(0).standard_normal((COUNT, DIM)).astype(np.float32)
IDS = [f"m{at}" for at in range(COUNT)]


@pytest.fixture(scope="module")
def saved_graphs(tmp_path_factory):
    """The folder of a fitted, closed index."""
    path = tmp_path_factory.mktemp("kept") / "index"
    with PredictiveAssociativeIndex.open(path, DIM, "faiss:hnsw") as index:
        index.add(VECTORS, IDS)
        trajectories = [IDS[at : at + 6] for at in range(0, COUNT, 6)]
        index.fit(trajectories, config=FitConfig(hidden=8, passes=2), progress=False)
        assert len(index._store.copies.indexes.parts()) == 2
    return path


@pytest.fixture
def path(saved_graphs, tmp_path):
    return shutil.copytree(saved_graphs, tmp_path / "index")


def answers(index) -> list[tuple[str, float]]:
    asked = IDS[:COUNT:37]
    found = [*index.recall_many(asked, k=5), *index.search_many(VECTORS[:COUNT:37] + 0.1, k=5)]
    return [(hit.id, hit.score) for hits in found for hit in hits]


def test_opening_takes_the_graphs_that_close_saved(path, built, tmp_path):
    with PredictiveAssociativeIndex.open(path) as index:
        assert not built
        before = answers(index)
        files = {file.name: file.read_bytes() for file in path.glob("ann-*")}
    assert {file.name: file.read_bytes() for file in path.glob("ann-*")} == files  # nothing changed: no file is written
    assert len(files) == 6
    with PredictiveAssociativeIndex.open(path, read_only=True) as index:
        assert answers(index) == before
    assert not built
    for file in path.glob("ann-*"):
        file.unlink()
    with PredictiveAssociativeIndex.open(path) as index:
        assert built
        assert answers(index) == before  # a rebuild in the same order gives the same graphs
    built.clear()
    with PredictiveAssociativeIndex.open(path) as index:  # the rebuilt graphs were saved
        assert not built


def changed(index) -> None:
    index.delete(IDS[:20])
    index.add(5 * np.eye(DIM)[:1], ["m30"])  # replaces a memory
    index.add(-7 * np.eye(DIM)[:2], ["new", "newer"])
    index.observe(["new", "m40", "newer"])


def assert_changed(index) -> None:
    assert index.search(VECTORS[3], k=1)[0].id != "m3"
    assert index.search(np.eye(DIM)[0], k=1)[0].id == "m30"
    assert index.search(-np.eye(DIM)[1], k=1)[0].id == "newer"
    assert index.search(VECTORS[30], k=1)[0].id != "m30"
    assert "newer" in index.recall("new", k=5).ids
    assert not set(IDS[:20]) & {hit.id for hit in index.search(VECTORS[3], k=COUNT)}
    found = index.search_many(VECTORS[40:], k=1)
    assert [hits[0].id for hits in found].count("new") == 0
    assert np.mean([hits[0].id == id for hits, id in zip(found, IDS[40:], strict=True)]) > 0.99


def test_a_reader_beside_a_writer_takes_them_and_what_changed_since(path, built):
    with PredictiveAssociativeIndex.open(path) as writer:
        changed(writer)
        with PredictiveAssociativeIndex.open(path, read_only=True, follow=True) as reader:
            assert_changed(reader)
            writer.delete("new")
            assert "new" not in reader.search(-np.eye(DIM)[0], k=3).ids
        assert not built
    with PredictiveAssociativeIndex.open(path) as index:
        assert index.search(-np.eye(DIM)[1], k=1)[0].id == "newer"
    assert not built


def test_after_a_kill_they_are_taken_with_what_was_committed(path, built):
    index = PredictiveAssociativeIndex.open(path)
    changed(index)
    index._store._writable_folder.close()  # simulates the end of its process
    with PredictiveAssociativeIndex.open(path) as index:
        assert_changed(index)
    assert not built
    assert check(path) == []


def test_those_of_another_fit_are_not_taken(path, built):
    """Saved graphs of an earlier fit are not used: they are built again."""
    index = PredictiveAssociativeIndex.open(path)
    index.fit([IDS[:6]], config=FitConfig(hidden=8, passes=1), progress=False, from_scratch=True)
    expected = answers(index)
    index._store._writable_folder.close()
    built.clear()
    with PredictiveAssociativeIndex.open(path) as index:
        assert built
        assert [id for id, _ in answers(index)] == [id for id, _ in expected]


def test_where_most_changed_they_are_built(path, built):
    """If most memories have changed, the graphs are built again."""
    index = PredictiveAssociativeIndex.open(path)
    index.add(VECTORS[:400] + 1, IDS[:400])
    index._store._writable_folder.close()
    with PredictiveAssociativeIndex.open(path) as index:
        assert built
        assert index.search(VECTORS[100] + 1, k=1)[0].id == "m100"


def edit(path, end: str, change) -> None:
    """Changes the array in a file, with a valid checksum."""
    (file,) = path.glob(f"ann-*.whole.{end}.npy")
    array = np.load(file)
    change(array)
    np.save(file, array)
    index = PredictiveAssociativeIndex.open(path, read_only=True)
    saved = index._store.database.settings.get("graph")
    index.close()
    saved["parts"]["whole"]["checksums"][end] = zlib.crc32(file.read_bytes())
    write_setting(path, saved)


def write_setting(path, saved) -> None:
    index = PredictiveAssociativeIndex.open(path)
    with index._store.database.transaction():
        index._store.database.settings.set("graph", saved)
    index._store._writable_folder.close()


def put(at: int, value: int):
    return lambda array: array.__setitem__(at, value)


HARM = {
    "gone": lambda path: next(path.glob("ann-*.whole.rows.npy")).unlink(),
    "short": lambda path: truncate(next(path.glob("ann-*.own.neighbours.npy"))),
    "flipped": lambda path: flip(next(path.glob("ann-*.own.levels.npy"))),
    "beyond": lambda path: edit(path, "neighbours", put(70, COUNT)),
    "below": lambda path: edit(path, "neighbours", put(70, -2)),
    "far": lambda path: edit(path, "neighbours", put(0, 2**31 - 1)),
    "level": lambda path: edit(path, "levels", put(0, 99)),
    "no level": lambda path: edit(path, "levels", put(5, 0)),
    "twice": lambda path: edit(path, "rows", lambda rows: rows.__setitem__(1, rows[0])),
    "nothing": lambda path: write_setting(path, {"name": "../../etc"}),
    "no parts": lambda path: write_setting(path, {"name": "ann-0123456789ab", "version": 1, "width": 1, "parts": {}}),
}


def truncate(file) -> None:
    file.write_bytes(file.read_bytes()[:-8])


def flip(file) -> None:
    contents = bytearray(file.read_bytes())
    contents[-9] ^= 1
    file.write_bytes(contents)


@pytest.mark.parametrize("harm", HARM)
def test_what_is_no_graph_is_built_again(path, built, harm):
    """If the files of a graph are damaged, the graph is built again and saved."""
    HARM[harm](path)
    built.clear()
    with PredictiveAssociativeIndex.open(path) as index:
        assert built
        assert index.search(VECTORS[100], k=1)[0].id == "m100"
    built.clear()
    with PredictiveAssociativeIndex.open(path) as index:
        assert not built
        assert index.search(VECTORS[100], k=1)[0].id == "m100"


def test_a_file_that_promises_more_than_there_is_takes_no_memory(path, built):
    """A file whose header states a huge array is refused before memory is allocated for it."""
    (file,) = path.glob("ann-*.whole.neighbours.npy")
    contents = file.read_bytes().replace(b"(", b"(9999999999", 1)
    file.write_bytes(contents)
    index = PredictiveAssociativeIndex.open(path, read_only=True)
    saved = index._store.database.settings.get("graph")
    index.close()
    saved["parts"]["whole"]["checksums"]["neighbours"] = zlib.crc32(contents)
    write_setting(path, saved)
    built.clear()
    with PredictiveAssociativeIndex.open(path):
        assert built


def test_whatever_is_taken_can_be_searched():
    """A randomly damaged file is either refused, or searches end and return only existing places."""
    random = np.random.default_rng(1)
    backend = FaissBackend(DIM, "hnsw")
    backend.rebuild(np.arange(COUNT), VECTORS)
    whole, taken = backend.graph, 0
    for _ in range(300):
        arrays = {name: getattr(whole, name).copy() for name in ("levels", "neighbours", "rows")}
        name = ("levels", "neighbours", "rows", "entry")[random.integers(4)]
        entry = int(random.integers(-1, COUNT + 1)) if name == "entry" else whole.entry
        if name != "entry":
            arrays[name][random.integers(len(arrays[name]))] = random.choice([-2, -1, 0, 1, 2, 3, 7, COUNT - 1, COUNT])
        index = FaissBackend(DIM, "hnsw")
        graph = Graph(**arrays, entry=entry)
        rows = np.sort(graph.rows[graph.rows >= 0])
        try:
            index.rebuild_with_graph(graph, rows, np.ones((len(rows), DIM), np.float32))
        except ValueError:
            continue
        taken += 1
        _, found = index.search(VECTORS[:20], 5)
        assert ((found >= -1) & (found <= COUNT)).all()
    assert 20 < taken < 280


def test_a_graph_is_that_of_the_index(built):
    """A graph that is put into another FAISS index can be read from it unchanged."""
    import faiss

    backend = FaissBackend(DIM, "hnsw")
    backend.rebuild(np.arange(COUNT), VECTORS)
    made = faiss.index_factory(DIM, "HNSW32,Flat", faiss.METRIC_INNER_PRODUCT)
    put_graph(made, backend.graph)
    again = graph_of(made, np.arange(COUNT))
    for name in ("levels", "neighbours", "rows", "entry"):
        np.testing.assert_array_equal(getattr(again, name), getattr(backend.graph, name))


def test_check_names_what_is_not_whole_and_repair_mends_it(path, built):
    assert check(path) == []
    flip(next(path.glob("ann-*.whole.neighbours.npy")))
    (line,) = check(path)
    assert "graphs" in line
    repair(path)
    assert check(path) == []
    with PredictiveAssociativeIndex.open(path) as index:
        assert built
        assert index.search(VECTORS[100], k=1)[0].id == "m100"


@pytest.mark.parametrize("backend", ["faiss:hnsw", "faiss:hnsw,sq8"])
def test_a_copy_names_no_files_that_it_has_not(tmp_path, backend):
    path, copies = tmp_path / "index", [tmp_path / "one", tmp_path / "two"]
    with PredictiveAssociativeIndex.open(path, DIM, backend) as index:
        index.add(np.concatenate([VECTORS, -VECTORS]))
        index.save(copies[0])
    with PredictiveAssociativeIndex.open(path) as index:
        index.save(copies[1])
    assert check(copies[1]) == []
    first, second = ({file.name: file.read_bytes() for file in copy.iterdir()} for copy in copies)
    assert first == second


def test_no_key_of_what_was_deleted_is_kept_and_erase_drops_the_graphs(path):
    units = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)

    def leaks(positions) -> list[tuple[str, int]]:
        files = {file.name: file.read_bytes() for file in path.iterdir()}
        return [
            (name, at)
            for name, content in files.items()
            for at in positions
            if units[at, 1:9].tobytes() in content
            or VECTORS[at, 1:9].tobytes() in content
            or IDS[at].encode() in content
        ]

    assert leaks(range(300, 320))  # control: before the deletion the bytes are there
    with PredictiveAssociativeIndex.open(path) as index:
        before = [file.name for file in path.glob("ann-*")]
        report = index.erase(IDS[300:320])
        assert set(before) <= set(report.overwritten)
        assert not list(path.glob("ann-*"))
        assert leaks(range(300, 320)) == []
    assert leaks(range(300, 320)) == []
    with PredictiveAssociativeIndex.open(path) as index:
        assert not {hit.id for hit in index.search(VECTORS[301], k=COUNT)} & set(IDS[300:320])
        found = index.search_many(VECTORS[400:], k=1)
        assert np.mean([hits[0].id == id for hits, id in zip(found, IDS[400:], strict=True)]) > 0.99
