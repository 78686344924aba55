"""The parts of words such as ``HTTPDigestAuth`` are found, beside the words themselves."""

import numpy as np
import pytest
from engine_servers import fresh_engine
from test_scripts import as_older, found_by_words

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.mentions.identifiers import LONGEST, with_parts
from pam_retriever.store.sqlite import words

TEXTS = {
    "code": "class HTTPDigestAuth(AuthBase):",
    "tool": "getWeatherByCity: a forecast",
    "snake": "spike_generator_group",
    "plain": "nothing of it",
}


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("HTTPDigestAuth", "HTTP Digest Auth"),
        ("getHTTP", "get HTTP"),
        ("Conv2DLayer", None),
        ("xConv2DLayers", "Conv2D Layers"),
        ("eBay", "Bay"),
        ("pH", ""),
        ("naïveBayes", "naïve Bayes"),
        ("useGPU加速", "use GPU"),
        ("HTTP", None),
        ("Http", None),
        ("http_digest", None),
        ("a" * LONGEST + "B", None),
        ("a" * (LONGEST - 1) + "Bc", None),
        ("ab" * (LONGEST // 2 - 1) + "Bc", "ab" * (LONGEST // 2 - 1) + " Bc"),
        ("", None),
    ],
)
def test_the_parts_of_a_word(word, parts):
    rest = "加速" if "加" in word else ""
    expected = word if parts is None else f"{word.removesuffix(rest)} {parts}".rstrip() + rest
    assert with_parts(f"a {word} b_{word}_c") == f"a {expected} b_{expected}_c"


def test_the_longest_word_that_has_parts():
    """What indexes have indexed depends on it: another number needs another format."""
    assert LONGEST == 64


@pytest.mark.parametrize("letter", ["a", "A", "7", "é", "aA"])
def test_a_very_long_word_takes_linear_time(letter):
    text = letter * 200_000  # in quadratic time this would take minutes
    assert with_parts(f"{text} aBc {text}") == f"{text} aBc Bc {text}"


@pytest.fixture
def index(anywhere):
    index = anywhere(2)
    by = [{"by": f"user{id.title()}"} for id in TEXTS]
    index.add(np.ones((len(TEXTS), 2)), list(TEXTS), list(TEXTS.values()), by)
    return index


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("a digital test", []),
        ("digest", ["code"]),
        ("HttpDigest", ["code"]),
        ("httpdigestauth", ["code"]),
        ("the weather of a city", ["tool"]),
        ("SpikeGenerator", ["snake"]),
    ],
)
def test_a_part_is_found(index, question, found):
    assert found_by_words(index, question) == found


def test_a_part_of_a_word_in_the_metadata_is_found(index):
    hits = index.recall(np.ones(2), text="plain", k=4, explain=True)
    assert [hit.id for hit in hits if hit.sources.get("labels", 0) > 0] == ["plain"]


@pytest.mark.parametrize("last", ["named", "text"])
@pytest.mark.parametrize("name", ["GitHub Actions", "iPhone 15", "A JavaScript and TypeScript Guide", "MyGPU加速"])
def test_a_name_with_such_a_word_is_found(anywhere, name, last):
    """Whether the text or the memory with the name is added last: the parts stand between the words of the name."""
    index = anywhere(2)
    index.add([[1, 1]], ["other"], ["other"], [{"title": "other one"}])
    for id in ("named", "text") if last == "text" else ("text", "named"):
        index.add(
            [[1, 1]], [id], ["x" if id == "named" else f"We read: {name}."], [{"title": name} if id == "named" else {}]
        )
    (hit,) = (hit for hit in index.recall("text", k=3, explain=True) if hit.mentions)
    assert hit.id == "named"
    assert hit.mentions[0].name == name


def test_texts_with_the_words_of_a_name_apart_do_not_hide_those_with_the_name():
    index = PredictiveAssociativeIndex(dim=2)
    texts = ["new york", "york is new", "the new big york", "other", "new york", "ｶﾞ ﾄｳｷｮｳ", "ﾄｳｷｮｳ"]
    index.add(np.ones((len(texts), 2)), list("abcdefg"), texts)
    store = index._store.database.mentions.store
    assert store.rows_containing("new york", 5).tolist() == [1, 2, 3, 5]
    assert store.rows_containing("new york", 4).tolist() == [1, 5]
    assert store.rows_containing("new york", 1).tolist() == [1]
    assert store.rows_containing("ﾄｳｷｮｳ", 2).tolist() == [6, 7]


def test_an_engine_looks_for_letters_beside_each_other_if_many_texts_have_them():
    index = PredictiveAssociativeIndex(2, backend=fresh_engine("pgvector"))
    texts = ["京の東", "東京", "東の京", "東 京", "other", "東京都"]
    index.add(np.ones((len(texts), 2)), list("abcdef"), texts)
    store = index._store.database.mentions.store
    assert store.rows_containing("東 京", 6).tolist() == [1, 2, 3, 4, 6]
    assert store.rows_containing("東 京", 5).tolist() == [2, 6]
    index.add(np.ones((2, 2)), ["g", "h"], ["new york", "york, not new"])
    assert store.rows_containing("new york", 2).tolist() == [7, 8]
    index.close()


def test_an_index_of_format_3_gets_the_parts_of_its_words(tmp_path):
    folder = tmp_path / "index"
    with PredictiveAssociativeIndex.open(folder, 2) as index:
        index.add(np.ones((len(TEXTS), 2)), list(TEXTS), list(TEXTS.values()))
    as_older(folder, words.FORMAT_3)
    with PredictiveAssociativeIndex.open(folder, read_only=True) as index:
        assert found_by_words(index, "digest") == []
    with PredictiveAssociativeIndex.open(folder) as index:
        assert found_by_words(index, "digest") == ["code"]
        index.delete(["code"])
        assert found_by_words(index, "digest") == []
