"""Notebook views of results, and data frames."""

from __future__ import annotations

import sys
from html.parser import HTMLParser

import pytest
from explore_samples import DIM, HOSTILE, embed, exploring, fill

from pam_retriever import MissingExtra, PredictiveAssociativeIndex
from pam_retriever.display.html import line_chart, text_of
from pam_retriever.types import Hits


@pytest.fixture(scope="module")
def dialogue():
    """Shared: tests must not change it."""
    return fill(PredictiveAssociativeIndex(dim=DIM, embedder=embed))


class Read(HTMLParser):
    """Collects the tags and the text of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.add(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_hits_are_a_table_with_why(dialogue):
    read = Read(dialogue.recall("2026-03-05/0", k=3, explain=True)._repr_html_())
    assert "table" in read.tags
    assert "Ben: What was it in the end?" in read.text
    assert "experienced 1 time, mostly experience" in read.text
    assert "100%" in read.text


def test_hits_without_anything_are_shown():
    assert "0 hits" in Read(Hits()._repr_html_()).text


def test_hostile_texts_are_escaped_everywhere(dialogue):
    hits = dialogue.search(text=HOSTILE, k=76)
    assert HOSTILE in hits.ids
    shown = [
        hits._repr_html_(),
        dialogue.imagine("عربي", k=5)._repr_html_(),
        dialogue._repr_html_(),
        dialogue.last_fit()._repr_html_(),
        text_of(HOSTILE),
        line_chart([1.0, 2.0], HOSTILE),
    ]
    for html in shown:
        assert not {"script", "img"} & Read(html).tags
    assert "alert(1)" in Read(text_of(HOSTILE)).text


def test_a_report_has_its_loss_and_what_each_source_is_worth(dialogue):
    read = Read(dialogue.last_fit()._repr_html_())
    assert {"svg", "polyline", "table"} <= read.tags
    assert "associations" in read.text
    index = fill(PredictiveAssociativeIndex(dim=DIM, embedder=embed), fit=False)
    index.feedback([f"question {at} about the tap" for at in range(120)], [["2026-03-05/0"]] * 120)
    assert "mixture" in Read(index.fit(progress=False)._repr_html_()).text


def test_an_explorer_is_a_link(dialogue):
    with exploring(dialogue) as explorer:
        assert Read(explorer._repr_html_()).text.endswith(explorer.address)
        assert explorer.address in repr(explorer)


def test_hits_become_a_data_frame(dialogue):
    hits = dialogue.recall("2026-03-05/0", k=4, explain=True)
    frame = hits.to_pandas()
    assert frame["id"].tolist() == hits.ids
    assert frame["score"].tolist() == [hit.score for hit in hits]
    assert frame["metadata"][0] == hits[0].metadata
    assert Hits().to_pandas().empty
    assert list(Hits().to_pandas()["id"]) == []


def test_without_pandas_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match="notebooks"):
        Hits().to_pandas()


def test_a_long_line_is_cut_and_a_short_chart_is_none():
    assert len(Read(text_of("x" * 10_000)).text) == 200
    assert line_chart([1.0], "one") == ""
