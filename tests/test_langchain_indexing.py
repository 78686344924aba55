"""LangChain's record manager: ``index`` and ``aindex`` write to PAMVectorStore."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.indexing import InMemoryRecordManager, aindex, index
from langchain_samples import TableEmbedder

from langchain_pam import PAMVectorStore


class Pipeline:
    """A record manager and a store. ``run`` makes one indexing run, and returns its nonzero counts."""

    def __init__(self, asynchronous: bool) -> None:
        self.asynchronous = asynchronous
        self.records = InMemoryRecordManager("test")
        self.records.create_schema()
        self.store = PAMVectorStore(TableEmbedder())

    async def run(self, documents: list[Document], cleanup: str | None, **settings) -> dict[str, int]:
        settings = {"cleanup": cleanup, "source_id_key": "source", "key_encoder": "sha256", **settings}
        if self.asynchronous:
            counts = await aindex(documents, self.records, self.store, **settings)
        else:
            counts = index(documents, self.records, self.store, **settings)
        return {name.removeprefix("num_"): count for name, count in counts.items() if count}

    def contents(self) -> set[tuple[str, str]]:
        found = self.store.similarity_search("anything", k=100)
        return {(document.metadata["source"], document.page_content) for document in found}


@pytest.fixture(params=[False, True], ids=["index", "aindex"])
def pipeline(request) -> Pipeline:
    return Pipeline(request.param)


def pages(source: str, *texts: str) -> list[Document]:
    return [Document(text, metadata={"source": source}) for text in texts]


async def test_without_cleanup_only_new_pages_are_added(pipeline):
    assert await pipeline.run(pages("a", "1", "2", "2"), None) == {"added": 2, "skipped": 1}
    assert await pipeline.run(pages("a", "2", "3"), None) == {"added": 1, "skipped": 1}
    assert pipeline.contents() == {("a", "1"), ("a", "2"), ("a", "3")}


async def test_incremental_cleanup_deletes_old_pages_of_the_sources_seen(pipeline):
    await pipeline.run(pages("a", "1", "2") + pages("b", "9"), "incremental")
    assert await pipeline.run(pages("a", "2", "3"), "incremental") == {"added": 1, "skipped": 1, "deleted": 1}
    assert pipeline.contents() == {("a", "2"), ("a", "3"), ("b", "9")}


async def test_scoped_full_cleanup_does_so_across_batches(pipeline):
    await pipeline.run(pages("a", "1", "2") + pages("b", "9"), "scoped_full", batch_size=1)
    again = await pipeline.run(pages("a", "2", "3"), "scoped_full", batch_size=1)
    assert again == {"added": 1, "skipped": 1, "deleted": 1}
    assert pipeline.contents() == {("a", "2"), ("a", "3"), ("b", "9")}


async def test_full_cleanup_leaves_only_what_was_given(pipeline):
    await pipeline.run(pages("a", "1", "2") + pages("b", "9"), "full")
    assert await pipeline.run(pages("a", "2"), "full") == {"skipped": 1, "deleted": 2}
    assert pipeline.contents() == {("a", "2")}
    assert await pipeline.run([], "full") == {"deleted": 1}
    assert pipeline.contents() == set()


async def test_force_update_counts_updates_and_leaves_no_doubles(pipeline):
    await pipeline.run(pages("a", "1", "2"), "incremental")
    assert await pipeline.run(pages("a", "1", "2"), "incremental", force_update=True) == {"updated": 2}
    assert len(pipeline.store.index) == 2
