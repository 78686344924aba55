"""PAMStore with labels, values and pages at their limits: nobody sees, or breaks, what belongs to others."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from typing import Any

import pytest
from test_langgraph_store import keys, new

from langgraph_pam.reading import MAX_VALUE_DEPTH
from pam_retriever import InvalidInput

LONG = "a label that is longer than the name of a tenant may be " * 4


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"text": "wet stairs"}
    for _ in range(levels - 1):
        value = {"inside": value}
    return value


def called_deep(frames: int, call: Callable[[], Any]) -> Any:
    return call() if frames == 0 else called_deep(frames - 1, call)


def test_a_label_that_reads_like_a_digest_is_a_tenant_of_its_own(tmp_path):
    digest = "sha256:" + hashlib.sha256(LONG.encode()).hexdigest()
    with new(tmp_path) as store:
        store.put((LONG, "notes"), "theirs", {"text": "wet stairs"})
        store.put((digest, "notes"), "own", {"text": "wet stairs"})
        assert keys(store.search((digest,), query="wet stairs")) == ["own"]
        assert keys(store.search((LONG,), query="wet stairs")) == ["theirs"]
        assert sorted(keys(store.search((), query="wet stairs"))) == ["own", "theirs"]
        store.drop_tenant(digest)
        assert keys(store.search((LONG,), query="wet stairs")) == ["theirs"]


def test_a_value_that_only_a_short_stack_can_read_is_not_stored():
    with new() as store:
        with pytest.raises(InvalidInput, match=f"{MAX_VALUE_DEPTH + 1} levels deep. Expected at most"):
            store.put(("ann",), "deep", nested(MAX_VALUE_DEPTH + 1))
        store.put(("ann",), "stairs", nested(MAX_VALUE_DEPTH))
        assert keys(called_deep(sys.getrecursionlimit() // 2, lambda: store.search(("ann",)))) == ["stairs"]


@pytest.mark.parametrize("number", [sys.maxsize, 2**64])
@pytest.mark.parametrize("query", [None, "stairs"])
@pytest.mark.parametrize("filter", [None, {"month": 5}])
def test_a_page_of_any_size_and_place_is_answered(number, query, filter):
    with new() as store:
        store.put(("ann",), "stairs", {"text": "stairs", "month": 5})
        assert keys(store.search(("ann",), query=query, filter=filter, limit=number)) == ["stairs"]
        assert store.search(("ann",), query=query, filter=filter, offset=number) == []
