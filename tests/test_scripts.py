"""Words of scripts without spaces between words, and of scripts with vowel signs, are found."""

import json
import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pam_retriever import PredictiveAssociativeIndex
from pam_retriever.engines.words import WordCounter
from pam_retriever.mentions.scripts import cut, is_unspaced, split
from pam_retriever.mentions.stop_words import without_question_words
from pam_retriever.retrieval.lexical import Lexicon
from pam_retriever.store.folder.files import checksum_of
from pam_retriever.store.folder.repair import check
from pam_retriever.store.sqlite import words

TEXTS = {
    "chinese": "昨天我去了北京看长城。",
    "chinese, a cat": "我家的猫叫咪咪。",
    "japanese": "東京都に住んでいます。",
    "korean": "회의를 내일로 미뤘다.",
    "hindi": "मैं दिल्ली गया था",
    "hindi, a book": "वह किताब पढ़ती है",
    "bengali": "আমি বাংলা ভাষা শিখি",
    "tamil": "தமிழ் நூல் படித்தேன்",
    "thai": "ฉันชอบกินข้าว",
    "khmer": "ខ្ញុំរៀនភាសាខ្មែរ",
    "burmese": "မြန်မာစကားပြောတယ်",
    "arabic": "قرأ محمد الكتاب",
    "hebrew": "שלום עולם",
    "english": "the kettle boils",
}


def found_by_words(index: PredictiveAssociativeIndex, question: str) -> list[str]:
    """Returns the ids of the memories that share words with a question, the best first."""
    hits = index.recall(np.ones(2), text=question, k=len(index), explain=True, without=["similarity"])
    return [hit.id for hit in hits if hit.sources.get("words", 0) > 0]


@pytest.fixture(scope="module")
def index():
    index = PredictiveAssociativeIndex(dim=2)
    index.add(np.ones((len(TEXTS), 2)), list(TEXTS), list(TEXTS.values()))
    return index


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("长城在哪里？", "chinese"),
        ("猫叫什么名字？", "chinese, a cat"),
        ("猫", "chinese, a cat"),
        ("東京はどこですか", "japanese"),
        ("회의", "korean"),
        ("내일 회의는 언제입니까?", "korean"),
        ("दिल्ली", "hindi"),
        ("किताब कहाँ", "hindi, a book"),
        ("ভাষা", "bengali"),
        ("நூல்", "tamil"),
        ("ข้าว", "thai"),
        ("ភាសា", "khmer"),
        ("စကား", "burmese"),
        ("مُحَمَّد", "arabic"),
        ("שָׁלוֹם", "hebrew"),
        ("ｋｅｔｔｌｅ", "english"),
    ],
)
def test_a_question_finds_a_text_by_words_of_its_script(index, question, first):
    assert found_by_words(index, question)[:1] == [first]


@pytest.mark.parametrize("question", ["किस", "தந்த", "ত", "က", "❤️", "\u0301 ॐ"])
def test_a_vowel_sign_or_a_selector_is_no_word_alone(index, question):
    """SQLite's default splits Hindi words at vowel signs, so that single consonants matched."""
    assert found_by_words(index, question) == []


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("東京都", "東 東京 京 京都 都"),
        ("猫", "猫"),
        ("GPU加速", "GPU 加 加速 速"),
        ("회의를 샀다", "회 회의 의 의를 를 샀 샀다 다"),
        ("กินข้าว", "กิ กิน น นข้ ข้ ข้า า าว ว"),
        ("ｶﾞ ＡＢＣ１２ ㍿", "ガ ABC12 株 株式 式 式会 会 会社 社"),
        ("か\u3099", "が"),
        ("\u1112\u1161\u11ab", "한"),
        ("葛\U000e0100城", "葛 葛城 城"),
        ("مُحَمَّد ـــ", "محمد"),
        ("\u0301 e\u0301 x\u0305", "e x"),
        ("हिन्दी में", "हिन्दी में"),
        ("x\u20d7 i\ufe20a\ufe21 слово\u0483 1\ufe0f\u20e3", "x ia слово 1\ufe0f\u20e3"),
        ("naïve café, Ångström – “quoted” ❤️", "naïve café, Ångström – “quoted” ❤️"),
    ],
)
def test_how_a_text_is_cut(text, pieces):
    cut_text = cut(text)
    assert cut_text.split() == pieces.split()
    assert words.Tokenizer()(text) == sorted(set(terms_of(cut_text)))


def terms_of(text):
    """Returns the terms of a text by SQLite's tokenizer alone."""
    database = words._new_query()
    database.execute("INSERT INTO query (rowid, text) VALUES (1, ?)", [text])
    found = [term for (term,) in database.execute("SELECT term FROM places")]
    database.close()
    return found


def test_a_question_loses_the_words_that_make_it_one():
    assert without_question_words("小明为什么喜欢猫吗").split() == ["小明", "喜欢猫"]
    assert without_question_words("什么") == "什么"


def test_words_of_a_question_are_those_of_the_full_text_index():
    assert split("naïve हिन्दी e\u0301 a_b ❤\ufe0f") == ["naïve", "हिन्दी", "e\u0301", "a_b"]
    assert split("e\u0300x") == ["e\u0300x"]  # the first of the marks
    assert split("\u0301a\ufe00b\ufe0fc") == ["\u0301a", "b", "c"]


def test_only_some_scripts_have_no_spaces():
    assert [is_unspaced(text) for text in ("cafe", "café", "हिन्दी", "猫", "a 한", "ข")] == [False] * 3 + [True] * 3


LETTERS = st.text(st.sampled_from("abBC_ 東京都に猫한국กิน้ខ្មែहिन्दीمُ。e\u0301\ufe0f\u3099ｶﾞ"), min_size=1, max_size=12)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.one_of(st.none(), LETTERS), LETTERS), max_size=12))
def test_the_words_follow_changes_and_deletions(changes):
    """After any changes, the words are those of a new index with the same memories, in SQLite and in an engine."""
    index, kept = PredictiveAssociativeIndex(dim=2), {}
    index.add([[1, 1]], ["kept"], ["京都 kettle"])
    for id, text, label in changes:
        if text is None:
            index.delete([id] if id in kept else [])
            kept.pop(id, None)
        else:
            index.add([[1, 1]], [id], [text], [{"who": label}])
            kept[id] = text, {"who": label}
        assert found_by_words(index, "京都")  # the words follow each change
    database = index._store.database.connection
    database.ensure(words.VOCABULARY)
    ids = dict(database.fetch("SELECT row, id FROM memories"))
    terms = "SELECT term, col = 'labels', doc, count(*) FROM temp.places WHERE term IS NOT NULL GROUP BY 1, 2, 3"
    stored = {(term, label, ids[row], count) for term, label, row, count in database.fetch(terms)}
    kept["kept"] = "京都 kettle", {}
    numbers = list(kept)
    counted = WordCounter()(
        range(len(kept)), [text for text, _ in kept.values()], [json.dumps(one) for _, one in kept.values()]
    )
    assert stored == {(term, label, numbers[row], count) for term, label, row, count in counted}
    lexicon = Lexicon(index._store.database)
    rows = np.array(sorted(ids), np.int64)
    for term in {term for term, label, *_ in stored if not label}:
        held = {ids[row]: count for row, count in zip(rows, lexicon.posting(term).at(rows), strict=True) if count}
        assert held == {id: count for one, label, id, count in stored if one == term and not label}
    database.fetch("INSERT INTO words (words) VALUES ('integrity-check')")


NAMED = {
    "tower": ("高い塔", {"title": "東京タワー"}),
    "diary": ("昨日、東京タワーに行った。", {}),
    "garden": ("바빌론 정원", {"title": "공중정원"}),
    "trip": ("우리는 공중정원에서 놀았다", {}),
    "book": ("एक किताब", {"title": "गोदान"}),
    "reader": ("उसने गोदान पढ़ी", {}),
}


def named(index: PredictiveAssociativeIndex) -> dict[str, str]:
    """Returns for each cue in ``NAMED`` the first hit that a mention led to."""
    hits = {cue: index.recall(cue, k=len(NAMED), explain=True) for cue in NAMED}
    return {cue: hit.id for cue, found in hits.items() for hit in found[:1] if hit.mentions}


def add_named(index):
    texts, metadatas = zip(*NAMED.values(), strict=True)
    index.add(np.eye(len(NAMED)), list(NAMED), list(texts), list(metadatas))


EXPECTED = {"tower": "diary", "diary": "tower", "garden": "trip", "trip": "garden", "book": "reader", "reader": "book"}


def test_a_name_is_found_inside_a_text_without_spaces():
    index = PredictiveAssociativeIndex(dim=len(NAMED))
    add_named(index)
    assert named(index) == EXPECTED
    hit = index.recall(np.ones(len(NAMED)), text="東京タワーの高さは？", k=1, explain=True)[0]
    assert hit.id == "tower"
    assert "東京タワー" in str(hit.mentions)


@pytest.mark.parametrize("last", ["named", "text"])
@pytest.mark.parametrize(
    ("title", "text", "said"),
    [
        ("대한 민국", "우리는 대한 민국에서 놀았다", "대한 민국"),
        ("대한 민국", "우리는 대한민국에서 놀았다", "대한민국"),
        ("東京・タワー", "私は東京・タワーに行く", "東京・タワー"),
        ("GPU加速", "彼はGPU 加速を使う", "GPU 加速"),
        ("スーパーマーケットコンビニエンスストア", "近くのスーパーマーケットコンビニエンスストア", None),
        ("จุฬาลงกรณ์มหาวิทยาลัย", "เรียนที่จุฬาลงกรณ์มหาวิทยาลัยแล้ว", None),
        ("葛城市", "昨日、葛\U000e0100城市に行った", "葛\U000e0100城市"),
        ("ﾄｳｷｮｳ塔", "昨日ﾄｳｷｮｳ塔へ", None),
        ("نادي مصر", "زار نَادِي مصر", "نَادِي مصر"),
    ],
)
def test_a_name_is_found_with_spaces_and_marks(anywhere, title, text, said, last):
    """Whether the text or the memory with the name is added last."""
    index = anywhere(2)
    index.add([[1, 1]], ["other"], ["other"], [{"title": "other one"}])
    for id in ("named", "text") if last == "text" else ("text", "named"):
        index.add([[1, 1]], [id], [text if id == "text" else "x"], [{"title": title} if id == "named" else {}])
    (hit,) = (hit for hit in index.recall("text", k=3, explain=True) if hit.mentions)
    assert hit.id == "named"
    mention = hit.mentions[0]
    assert mention.name == (said or title)
    assert mention.start == text.index(said or title)


def test_a_name_does_not_end_before_a_vowel_sign():
    index = PredictiveAssociativeIndex(dim=2)
    texts = ["x", "คนนี้", "คนน ข้าว", "other"]
    index.add(np.ones((4, 2)), ["named", "longer", "said", "other"], texts, [{"title": "คนน"}, {}, {}, {}])
    assert [bool(index.recall(cue, k=1, explain=True)[0].mentions) for cue in ("longer", "said")] == [False, True]


def as_older(folder, schema=words.FORMAT_1, *statements):
    """Gives the index in a folder the words of format 2, or of another schema, and runs some statements."""
    manifest = json.loads((folder / "manifest.json").read_text())
    path = folder / manifest["database"]
    database = sqlite3.connect(path)
    labels = words.LABELS.format("memories")
    words.set_up(database)
    with database:
        for statement in (*words.UPDATE[:4], *schema, *statements):
            database.execute(statement)
        database.execute(
            f"INSERT INTO words (rowid, text, labels) SELECT row, text, {labels} FROM memories WHERE text IS NOT NULL"
        )
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    manifest["database_sha256"] = checksum_of(path)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_an_index_of_format_2_gets_the_words_of_now(tmp_path):
    """The first writer indexes the words again; a reader before it answers by the old ones."""
    folder = tmp_path / "index"
    with PredictiveAssociativeIndex.open(folder, 2) as index:
        index.add(np.ones((len(TEXTS), 2)), list(TEXTS), list(TEXTS.values()))
    as_older(folder)
    with PredictiveAssociativeIndex.open(folder, read_only=True) as index:
        assert found_by_words(index, "kettle") == ["english"]
        assert found_by_words(index, "长城") == []
    with PredictiveAssociativeIndex.load(folder) as index:
        assert found_by_words(index, "长城") == ["chinese"]
    with PredictiveAssociativeIndex.open(folder) as index:
        assert found_by_words(index, "长城") == ["chinese"]
        index.delete(["chinese"])
        assert found_by_words(index, "长城") == []
    with PredictiveAssociativeIndex.open(folder, read_only=True) as index:
        assert found_by_words(index, "दिल्ली") == ["hindi"]


def test_readers_of_an_index_of_format_2_follow_its_update(tmp_path):
    """What a reader keeps of the words was read before the first writer indexed them again."""
    folder = tmp_path / "index"
    with PredictiveAssociativeIndex.open(folder, 2) as index:
        index.add(np.ones((len(TEXTS), 2)), list(TEXTS), list(TEXTS.values()))
    as_older(folder)
    with (
        PredictiveAssociativeIndex.open(folder, read_only=True, follow=True) as follower,
        PredictiveAssociativeIndex.open(folder, read_only=True) as reader,
    ):
        assert found_by_words(follower, "长城") == found_by_words(reader, "长城") == []
        PredictiveAssociativeIndex.open(folder).close()
        assert found_by_words(follower, "长城") == ["chinese"]
        reader.refresh()
        assert found_by_words(reader, "长城") == ["chinese"]


def test_a_copy_that_a_reader_of_format_2_saves_has_the_words_of_now(tmp_path):
    """Its manifest says that it is of the present format."""
    folder, copy = tmp_path / "index", tmp_path / "copy"
    with PredictiveAssociativeIndex.open(folder, 2) as index:
        index.add(np.ones((len(TEXTS), 2)), list(TEXTS), list(TEXTS.values()))
    as_older(folder)
    for follow in (False, True):
        with PredictiveAssociativeIndex.open(folder, read_only=True, follow=follow) as index:
            index.save(copy, overwrite=True)
            assert found_by_words(index, "长城") == []  # its own folder stays
        with PredictiveAssociativeIndex.open(copy, read_only=True) as index:
            assert found_by_words(index, "长城") == ["chinese"]
        assert check(copy) == []


def test_names_of_an_index_of_format_2_are_searched_for_again(tmp_path):
    folder = tmp_path / "index"
    with PredictiveAssociativeIndex.open(folder, len(NAMED)) as index:
        add_named(index)
    tables = ("mentions", "names", "called", "beginnings")
    as_older(folder, words.FORMAT_1, *(f"DELETE FROM {table}" for table in tables))
    with PredictiveAssociativeIndex.open(folder, read_only=True) as index:
        assert not named(index)
    with PredictiveAssociativeIndex.open(folder) as index:
        assert named(index) == EXPECTED


def test_ctrl_c_while_a_text_is_cut_is_ctrl_c(monkeypatch):
    """SQLite calls ``cut``, and reports an error of its own in place of the interrupt."""
    interrupts = [True]

    def interrupted(text: str) -> str | None:
        if interrupts and interrupts.pop():
            raise KeyboardInterrupt
        return cut(text)

    monkeypatch.setattr(words, "cut", interrupted)
    index = PredictiveAssociativeIndex(dim=2)
    with pytest.raises(KeyboardInterrupt):
        index.add([[1, 1]], ["a"], ["東京都"])
    assert len(index) == 0
    index.add([[1, 1]], ["a"], ["東京都"])
    interrupts.append(True)
    with pytest.raises(KeyboardInterrupt):
        index.delete(["a"])
    assert found_by_words(index, "京都") == ["a"]


def test_letters_after_a_nul_are_words_too():
    """SQLite's own functions end at NUL."""
    index = PredictiveAssociativeIndex(dim=2)
    index.add(np.ones((2, 2)), ["a", "b"], ["kettle\x00東京都", "京都"])
    assert sorted(found_by_words(index, "京都")) == ["a", "b"]
    database = index._store.database.connection
    database.ensure(words.VOCABULARY)
    assert database.fetch("SELECT count(*) FROM temp.places WHERE term = '京都'") == [(2,)]
