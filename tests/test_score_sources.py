"""The part of each source in a score, and recall without some sources."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import DIM
from dialogue_samples import core, embed, questions

from pam_retriever import InvalidInput, PredictiveAssociativeIndex
from pam_retriever.retrieval.association import SOURCES


def test_shares_of_association_add_up_to_the_score(fitted, planted):
    for hit in fitted.recall("m005", k=10, explain=True):
        assert sum(hit.sources.values()) == pytest.approx(hit.score, abs=1e-5)
    noisy = planted.vectors[5] + 0.8 * planted.vectors[77]
    for hit in fitted.recall(noisy, k=30, explain=True):
        assert sum(hit.sources.values()) == pytest.approx(hit.score, abs=1e-5)


def test_sources_are_filled_only_with_explain(fitted):
    assert [hit.sources for hit in fitted.recall("m005", k=2)] == [None, None]


def test_a_memory_that_was_never_experienced_has_similarity_alone(planted):
    index = PredictiveAssociativeIndex(dim=DIM)
    index.add(planted.vectors, planted.ids)
    index.fit(planted.outings[:10], window=2, progress=False)
    hits = index.recall("m005", k=150, explain=True)
    new = [hit for hit in hits if hit.id >= "m100"]
    assert new
    assert {name for hit in new for name in hit.sources} == {"similarity"}
    for hit in new:
        assert sum(hit.sources.values()) == pytest.approx(hit.score, abs=1e-5)


def test_without_experience_the_links_do_not_count(fitted, planted):
    with_links = fitted.recall("m005", k=10, explain=True)
    assert {"m004", "m006"} <= set(with_links.ids[:4])
    without = fitted.recall("m005", k=10, explain=True, without=["experience"])
    assert all("experience" not in hit.sources for hit in without)
    assert without.ids != with_links.ids or not np.allclose(without.scores, with_links.scores)
    only = fitted.recall(
        "m005", k=50, without=["prediction", "similarity", "links of look-alikes", "links of predictions"]
    )
    assert set(only.ids) == planted.associates("m005")  # memories without a link are no hits


def test_sources_of_words_add_up_and_can_be_left_out():
    index, (text, _) = core(), questions()[4]
    query = np.array(embed(text), np.float32)
    hits = index.recall(query, text=text, k=20, explain=True)
    for hit in hits:
        assert sum(hit.sources.values()) == pytest.approx(hit.score, abs=1e-5)
    assert any(hit.sources.get("neighbours") for hit in hits)
    similar = index.recall(query, text=text, k=10, explain=True, without=["words", "neighbours", "labels"])
    assert set(similar.ids) <= set(index.search(query, k=30).ids)
    assert similar.ids == sorted(similar.ids, key=lambda id: -similar[similar.ids.index(id)].similarity)
    assert {name for hit in similar for name in hit.sources} <= {"similarity", "times"}


def test_sources_of_use_are_log_odds_whose_softmax_is_the_score():
    index, asked = core(), questions()
    index.feedback([embed(text) for text, _ in asked], [sorted(ids) for _, ids in asked], text=[t for t, _ in asked])
    text, used = asked[7]
    query = np.array(embed(text), np.float32)
    hits = index.recall(query, text=text, k=len(index), explain=True)
    assert set(hits.ids[:2]) == used
    odds = np.exp([sum(hit.sources.values()) for hit in hits])
    np.testing.assert_allclose(odds / odds.sum(), hits.scores, atol=1e-4)
    assert hits[0].sources["requests"] > 0
    unused = index.recall(query, text=text, k=5, explain=True, without=["requests", "profile", "popularity"])
    assert all("requests" not in hit.sources for hit in unused)


def test_nothing_changes_without_nothing(fitted):
    """An empty ``without`` changes nothing."""
    assert fitted.recall("m005", k=5, without=()) == fitted.recall("m005", k=5)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"without": ["looks"]}, "sources of this answer: experience, prediction"),
        ({"without": "experience"}, "Expected a list"),
        ({"without": ["experience"], "hops": 2}, "it has none"),
        ({"without": ["similarity"], "mode": "specific"}, "it has none"),
        ({"without": list(SOURCES)}, "one source at least"),
    ],
)
def test_arguments_without_effect_are_refused(fitted, options, words):
    with pytest.raises(InvalidInput, match=words):
        fitted.recall("m005", **options)


def test_time_alone_has_no_sources(fitted):
    """``without`` needs a query: recall by ``when`` alone uses no sources."""
    with pytest.raises(InvalidInput, match="needs one"):
        fitted.recall(when=(0, 1), without=["experience"])


def test_the_parts_of_a_score_are_read_from_the_largest_and_shown_without_noise():
    index, asked = core(), questions()
    text, used = asked[7]
    query = np.array(embed(text), np.float32)
    index.feedback(query, sorted(used), text=text)
    for hit in index.recall(query, text=text, k=10, explain=True):
        sizes = [abs(value) for value in hit.sources.values()]
        assert sizes == sorted(sizes, reverse=True) and min(sizes) > 1e-6 * sizes[0]
        name, value = next(iter(hit.sources.items()))
        assert f"sources={{{name!r}: {value:.2f}" in repr(hit)
