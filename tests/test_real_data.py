"""The loaders and the protocol of the benchmarks on real data, on files small enough to check by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.real import dialogue, wikispeedia
from benchmarks.real.wikispeedia import Query, Walk


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "articles.tsv").write_text("# comment\n\nArticle_Name\nA%20a\nB\nC\nD\n")
    (tmp_path / "paths_unfinished.tsv").write_text(
        "# comment\nip\t20\t1\tB;C;<;D\tA%20a\ttimeout\nip\t10\t1\tA%20a;B;C;<;<\tD\trestart\n"
    )
    return tmp_path


def test_walks_come_by_time_and_a_click_on_back_shows_the_article_before(folder):
    titles, walks = wikispeedia.read(folder)
    assert titles == ["A a", "B", "C", "D"]
    assert walks == [Walk(10, (0, 1, 2, 1, 0)), Walk(20, (1, 2, 1, 3))]


def test_queries_are_steps_with_what_is_around_them():
    queries = wikispeedia.draw_queries([Walk(0, (0, 1, 2, 3, 4, 0))], {0, 4}, {1, 2, 9}, np.random.default_rng(0))
    assert sorted(queries, key=lambda query: (query.cue, len(query.relevant))) == [
        Query(0, frozenset({2})),  # the cue is the last step of the walk
        Query(0, frozenset({1, 2})),
        Query(4, frozenset({1, 2})),
    ]


def test_what_is_hidden_is_in_no_training_walk_of_the_last_columns():
    random = np.random.default_rng(1)
    walks = [Walk(at, tuple(random.integers(0, 50, 8).tolist())) for at in range(60)]
    columns = {column.name: column for column in wikispeedia.make_columns(50, walks[:40], walks[40:])}
    seen = {article for walk in columns["unseen cue"].training for article in walk.articles}
    assert len(seen) == 40
    assert not seen & set(columns["unseen cue"].cues.tolist())
    assert set(columns["unseen target"].cues.tolist()) <= seen
    assert not any(query.relevant & seen for query in columns["unseen target"].queries)
    assert columns["known"].training == walks[:40]


def test_the_ranking_leaves_the_cue_out_and_recall_counts_the_rest():
    ranked = wikispeedia.rank(np.array([[9.0, 1, 3, 2]], np.float32), np.array([0]), depth=2)
    assert ranked.tolist() == [[2, 3]]
    assert wikispeedia.recall_at(ranked, [Query(0, frozenset({1, 2}))], depth=2).tolist() == [0.5]


@pytest.mark.parametrize(
    ("line", "message"),
    [("ip\t1\t1\tA%20a;Zebra\tB\trestart", "Zebra"), ("A%20a;B", "expected 6 columns")],
)
def test_a_damaged_file_is_refused(folder, line, message):
    (folder / "paths_unfinished.tsv").write_text(line + "\n")
    with pytest.raises(SystemExit, match=message):
        wikispeedia.read(folder)


def test_dialogues_keep_answerable_questions_with_all_their_evidence(tmp_path):
    said = [{"speaker": "Ann", "dia_id": f"D1:{at}", "text": f"t{at}"} for at in range(1, 4)]
    asked = [
        {"question": "q1", "evidence": ["D1:1; D1:3", "D9:9"], "category": 1},
        {"question": "nobody knows", "evidence": ["D1:2"], "category": 5},
        {"question": "nowhere", "evidence": [], "category": 2},
    ]
    file = tmp_path / "locomo.json"
    talk = {"session_1_date_time": "1:00 pm on 1 May, 2023", "session_1": said}
    file.write_text(json.dumps([{"sample_id": "c", "conversation": talk, "qa": asked}]))
    (conversation,) = dialogue.read(file)
    assert conversation.questions == [("q1", {"D1:1", "D1:3"}, 1)]
    assert conversation.relevant().tolist() == [[True, False, True]]
    file.write_text("[1]")
    with pytest.raises(SystemExit, match="not LoCoMo"):
        dialogue.read(file)


def test_rankings_of_a_dialogue_are_judged():
    turns = [{"id": str(at), "session": at // 2} for at in range(12)]
    conversation = dialogue.Conversation("c", turns, [("q", {"3", "11"}, 1)])
    ranked = np.array([[0, 3, 1, 2, 4, 5, 11, -1]])
    r5, r10, r20, mrr, ndcg, session = dialogue.evaluate(ranked, conversation)[0]
    assert (r5, r10, r20, mrr, session) == (0.5, 1, 1, 0.5, 1)
    assert ndcg == pytest.approx((1 / np.log2(3) + 1 / np.log2(8)) / (1 + 1 / np.log2(3)))
