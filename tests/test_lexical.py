"""Search by words agrees with a plain BM25, and follows every change."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.experience.graph import CooccurrenceGraph
from pam_retriever.retrieval.lexical import CONTEXT_SHARE, K1, B
from pam_retriever.store.sqlite import words
from pam_retriever.store.sqlite.database import SQLiteDatabase
from pam_retriever.store.storing import NewMemories

WALK = [
    "the red kettle whistles",
    "a storm takes the boat boat boat",
    "we mend the nets by the harbour",
    "kettle on again, and tea",
    "gulls over the harbour wall",
    "nothing else",
]


def new_index(texts=WALK, observe=True, **options):
    index = PredictiveAssociativeIndex(dim=len(texts), **options)
    ids = [f"m{at}" for at in range(len(texts))]
    index.add(np.eye(len(texts)), ids, texts)
    if observe:
        index.observe(ids)
    return index


def lexicon_of(index):
    return index._lexicon


def written_out(texts: list[str], query: list[str], window: int) -> list[float]:
    """Returns BM25 scores, computed term by term; the words of neighbours count in part."""
    own = [Counter(text.replace(",", "").split()) for text in texts]
    df = {term: sum(term in counts for counts in own) for term in query}
    contexts, lengths = [], []
    for at in range(len(texts)):
        around = [n for n in range(max(0, at - window), min(len(texts), at + window + 1)) if n != at]
        contexts.append({t: own[at][t] + CONTEXT_SHARE * sum(own[n][t] for n in around) for t in query})
        lengths.append(len(texts[at]) + CONTEXT_SHARE * sum(len(texts[n]) for n in around))
    mean = sum(lengths) / len(lengths)
    scores = []
    for counts, length in zip(contexts, lengths, strict=True):
        total = 0.0
        for term in query:
            idf = math.log(1 + (len(texts) - df[term] + 0.5) / (df[term] + 0.5))
            total += idf * counts[term] * (K1 + 1) / (counts[term] + K1 * (1 - B + B * length / mean))
        scores.append(total)
    return scores


def test_scores_are_those_of_bm25_with_the_neighbours_words_in_part():
    index = new_index()
    lexicon = lexicon_of(index)
    rows = np.arange(1, 7)
    position, met, _ = index._store.links.around(rows, 2)
    terms = lexicon.terms("kettle boat harbour")
    assert terms == ["boat", "harbour", "kettl"]  # the terms are stems
    scores = lexicon.score(terms, rows, position, met)
    assert scores == pytest.approx(written_out(WALK, ["kettle", "boat", "harbour"], 2), rel=1e-5)


def test_the_best_rows_are_those_of_bm25_alone():
    lexicon = lexicon_of(new_index())
    expected = written_out(WALK, ["kettle", "boat"], 0)
    found = lexicon.best(lexicon.terms("kettle boat"), 3, None)
    assert set(found) == {at + 1 for at in np.argsort(expected)[::-1][:3]}
    assert set(lexicon.best(lexicon.terms("kettle boat"), 9, np.array([2, 3]))) == {2}
    assert not len(lexicon.best(lexicon.terms("zebra"), 5, None))


def test_question_words_do_not_count_unless_there_is_nothing_else():
    lexicon = lexicon_of(new_index())
    assert lexicon.terms("When did the Kettle whistle?") == ["kettl", "whistl"]
    assert lexicon.terms("the who") == ["the", "who"]
    assert lexicon.terms("?!") == []


def test_the_words_follow_every_change():
    index = new_index()
    lexicon = lexicon_of(index)

    def rows(term):
        return lexicon.best([term], 10, None).tolist()

    assert sorted(rows("kettl")) == [1, 4]
    index.delete("m0")
    assert rows("kettl") == [4]
    index.add([[1, 1, 1, 1, 1, 1]], ["m3"], ["no longer"])
    assert rows("kettl") == []
    index.add([[1, 1, 1, 1, 1, 1]], ["m3"])  # the memory has no text any more
    index.add([[1, 1, 1, 1, 1, 1]], ["m3"], ["a kettle once more"])
    assert rows("kettl") == [4]
    index._store.database.connection._sqlite.execute("INSERT INTO words (words) VALUES ('integrity-check')")


def test_neighbours_follow_every_change():
    index = new_index(observe=False)

    def around(row):
        return sorted(index._store.links.around(np.array([row]), 1)[1].tolist())

    assert around(2) == []
    index.observe(["m0", "m1", "m2"])
    assert around(2) == [1, 3]
    index.delete("m2")
    assert around(2) == [1]


def test_a_failed_call_leaves_the_words_as_they_were():
    documents = SQLiteDatabase()

    def fail_at_the_end():
        with documents.transaction():
            documents.memories.upsert(NewMemories(["a"], np.ones((1, 2), np.float32), ["kettle"], ["{}"]), None)
            documents.settings.set("something", object())

    with pytest.raises(TypeError):
        fail_at_the_end()
    assert not len(documents.memories.positions("kettl", "text", 10)[0])


def test_labels_are_the_strings_of_the_metadata_in_any_script():
    """Strings in metadata, but not numbers, count as labels of a memory; accents do not matter."""
    index = PredictiveAssociativeIndex(dim=2)
    index.add(
        np.eye(2),
        texts=["x", "y"],
        metadatas=[{"speaker": "Zoë Łuk", "number": 7}, {"speaker": "Caroline", "place": {"deep": "Zoë"}}],
    )
    lexicon = lexicon_of(index)
    rows = np.array([1, 2])
    assert lexicon.label(lexicon.terms("What did Zoe say?"), rows).tolist() == [1, 0]
    assert lexicon.label(lexicon.terms("speaker 7"), rows).tolist() == [0, 0]
    assert lexicon.label(lexicon.terms("Caroline and Zoë"), rows) == pytest.approx([0.5, 0.5])


def test_a_term_that_is_everywhere_is_not_read(monkeypatch):
    """A term with too many occurrences is skipped, because it hardly distinguishes texts."""
    monkeypatch.setattr("pam_retriever.retrieval.postings.MOST_OCCURRENCES", 2)
    lexicon = lexicon_of(new_index())
    assert lexicon.best(["harbour", "gull"], 10, None).tolist() == [5]


def test_neighbours_are_those_of_a_loop():
    random = np.random.default_rng(0)
    rows = random.integers(1, 30, 80)
    trajectory = np.sort(random.integers(0, 9, 80))
    position = np.concatenate([np.sort(random.permutation(20)[: (trajectory == t).sum()]) for t in range(9)])
    links = CooccurrenceGraph(rows, trajectory, position)
    asked = np.arange(1, 30)
    expected: dict[tuple[int, int], int] = {}
    for at, row in enumerate(asked):
        for one in np.flatnonzero(rows == row)[-8:]:
            for other in range(80):
                distance = abs(position[one] - position[other])
                if trajectory[one] == trajectory[other] and distance <= 3 and rows[other] != row:
                    key = at, rows[other]
                    expected[key] = min(expected.get(key, 99), distance)
    position, met, distance = links.around(asked, 3)
    assert dict(zip(zip(position, met, strict=True), distance, strict=True)) == expected


def test_the_tokenizer_keeps_nothing_of_the_query_before():
    """A tokenizer returns only the terms of the current text, none of the previous text."""
    tokenize = words.Tokenizer()
    assert tokenize("boat harbour") == ["boat", "harbour"]
    assert tokenize('kettle\x00 "quoted" OR NEAR(') == ["kettl", "near", "quot"]


def test_the_tokenizer_keeps_few_words_and_answers_the_same(monkeypatch):
    monkeypatch.setattr(words, "MOST_KNOWN", 2)
    tokenize = words.Tokenizer()
    for text in ("boat harbour", "boat kettle", "harbour kettle"):
        assert tokenize(text) == sorted(words.Tokenizer()(text))
        assert len(tokenize._known) <= 2


def test_a_text_that_could_not_be_read_leaves_no_words():
    def texts():
        yield 1, "boat", None
        raise UnicodeError("no text")

    tokenize = words.Tokenizer()
    with pytest.raises(UnicodeError):
        tokenize.postings(texts())
    assert tokenize.postings([(2, "kettle", None)]).keys() == {("kettl", "text")}


@pytest.mark.parametrize(
    "text",
    [
        "Where did the ponies' owners go, running or ridden?",
        "naïve café under_score __ a_b_c İstanbul ǅ ß ﬁne e\u0301te\u0301 Ⅷ ٣ 12.5 x² 東京タワー",
        "one two one TWO 👍🏽 \x00 zero\u200bwidth " + "long" * 400,
    ],
)
def test_the_terms_of_a_text_are_those_of_its_words_however_often_they_were_asked(text):
    """The full-text index tokenizes the words of a text one by one."""
    tokenize = words.Tokenizer()
    database = words._new_query()
    asked = words.content_words(words.split(words.cut(text.replace("\x00", " ").lower())))
    database.execute("INSERT INTO query (rowid, text) VALUES (1, ?)", [" ".join(asked)])
    found = database.execute("SELECT term FROM terms").fetchall()
    database.close()
    expected = [term for (term,) in found if len(term.encode()) <= words.LONGEST_TERM]
    assert tokenize(text) == tokenize(text) == expected
    assert tokenize(f"{text} kettle") == sorted({*expected, "kettl"})


def test_a_word_too_long_for_the_full_text_index_is_ignored():
    """A word beyond 32,768 bytes is ignored, because FTS5 would cut it, even within a character."""
    long = "\u53bb\u5e74" * 20_000
    index = PredictiveAssociativeIndex(dim=2)
    index.add(np.eye(2), ["a", "b"], [f"{long} kettle", "boat"])
    assert index.recall([1, 1], text=f"{long} kettle", k=2).ids[0] == "a"
    assert set(index.recall([1, 1], text=long, k=2).ids) == {"a", "b"}


def test_a_question_that_shares_only_a_common_word_counts_little_by_words():
    """One of four words is in a text: the best match is worth less than a match of most words."""
    texts = ["I need to call my mother", "the spare wheel lies in the boot", "the cat sleeps"]
    index = PredictiveAssociativeIndex(dim=3)
    index.add(np.eye(3), list("abc"), texts)
    towards = [0.3, 0.5, 0.0]
    assert index.recall(towards, text="What do I need for a flat tyre on gravel?", k=1).ids == ["b"]
    assert index.recall(towards, text="Whom do I need to call?", k=1).ids == ["a"]


def test_a_newcomers_questions_are_answered_by_meaning_where_only_need_is_shared():
    index = PredictiveAssociativeIndex(embedder="default")
    texts = [
        "You need a passport photo for the library card.",
        "The plumber repaired the leak in the kitchen.",
        "Our dentist moved to Station Road.",
        "The heating was serviced in October.",
        "The bakery opens at six.",
    ]
    index.add(ids=["card", "plumber", "dentist", "heating", "bakery"], texts=texts)
    for question, answer in {
        "Whom do I need to call about a dripping tap?": "plumber",
        "I need somebody to look at my tooth": "dentist",
        "Do we need to have the boiler checked?": "heating",
        "What do I need for the library?": "card",
    }.items():
        assert index.recall(text=question, k=1).ids == [answer]


def test_the_reach_of_a_question_is_the_bm25_of_all_its_words():
    lexicon, rows = lexicon_of(new_index()), np.arange(1, 7)
    idf = {term: math.log(1 + (6 - df + 0.5) / (df + 0.5)) for term, df in (("kettl", 2), ("boat", 1), ("zebra", 0))}
    assert lexicon.reach(["kettl"], rows) == pytest.approx(idf["kettl"])
    assert lexicon.reach(["kettl"], rows[1:3]) == pytest.approx(idf["zebra"])  # none of these holds it
    assert lexicon.reach(["kettl", "boat", "zebra"], rows) == pytest.approx(sum(idf.values()))
    assert lexicon.reach(["kettl", "boat"] * 5, rows) == pytest.approx(2.5 * (idf["kettl"] + idf["boat"]))
    assert lexicon.reach([], rows) == 0


def test_words_that_are_labels_or_everywhere_are_not_missing(monkeypatch):
    index, rows = new_index(), np.arange(1, 7)
    index.update("m0", metadata={"speaker": "Zoe"})
    lexicon = lexicon_of(index)
    assert lexicon.reach(lexicon.terms("Zoe kettle"), rows) == lexicon.reach(["kettl"], rows)
    monkeypatch.setattr("pam_retriever.retrieval.postings.MOST_OCCURRENCES", 2)
    lexicon = lexicon_of(new_index())
    assert lexicon.reach(["harbour", "gull"], rows) == lexicon.reach(["gull"], rows)


def changes_of_packages():
    """Returns an index of 60 texts: 59 repeat the words of a question, and the last has its number."""
    texts = [f"Release {at} of p{at}: closed a bug, closed a bug, released (#{700000 + at})" for at in range(59)]
    texts.append("The door of the shed is painted (#992223), " + "with a brush and much patience, " * 5)
    index = PredictiveAssociativeIndex(dim=2)
    vectors = [[1, 0.01 * at] for at in range(59)] + [[0, 1]]
    index.add(vectors, [str(at) for at in range(60)], texts)
    return index


@pytest.mark.parametrize("question", ["Which release closed bug 992223?", "Which release closed bug #992223, and who?"])
def test_a_text_with_the_rare_number_of_a_question_comes_first(question):
    first = changes_of_packages().recall([1, 0], text=question, explain=True, k=60)
    assert first[0].id == "59" and first[0].score <= 1
    assert sum(first[0].sources.values()) == pytest.approx(first[0].score, abs=1e-5)
    assert first[0].sources["words"] > first[1].sources["words"]


def test_a_year_and_a_number_in_many_texts_raise_nothing():
    index = changes_of_packages()
    before = index.recall([1, 0], text="Which release closed bug 2019?", k=3).ids
    index.add([[0, 1]] * 20, texts=[f"part {at} of 2019 in box 4711" for at in range(20)])
    assert index.recall([1, 0], text="Which release closed bug 2019?", k=3).ids == before
    assert index.recall([1, 0], text="Which release closed bug 4711?", k=3).ids == before
