"""Tokens of Chinese, which has no spaces: the longest known word at each position."""

from __future__ import annotations

import re
from functools import lru_cache

from pam_retriever.timewords.lexicon import Token, words

_DIGITS = {"一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_ONES = "一二三四五六七八九"
_PLACES = re.compile("广场|大道|公园|小区|医院|中学|大桥|村|路(?!上)|街(?!上)")  # behind a holiday: "五一广场"
_NAMES = re.compile("快乐|愉快|乐队|餐厅|咖啡|酒吧|书店|百货|头条")


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    single, _ = words("zh")
    counted = rf"(?<![\d十几多半{_ONES}])"  # "年中" is the middle of a year, but not in "十年中国"
    longest = sorted(single, key=lambda word: -len(word))
    phrases = "|".join((counted if word[0] in "年月" and word[1:] else "") + re.escape(word) for word in longest)
    number = r"\d{1,4}|[一二两三四五六七八九]?十[一二三四五六七八九]?|[一二两三四五六七八九]"
    return re.compile(
        r"(?P<date>\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?/\d\d?/(?:\d{4}|\d\d))"
        rf"|(?:(?P<century>\d\d|二?十[{_ONES}]?|[上本这])个?世纪的?)?(?P<decade>\d{{4}}|\d0|[二三四五六七八九]十)年代"
        r"|(?P<clock>(?:\d{1,2}|十[一二]?|[二两三四五六七八九]|(?<=午)一)点(?:半|(?:\d{1,2}|[一二三四五]?十[一二三四五六七八九]?)分)?)"
        rf"|(?P<year>\d{{4}}|[零〇{_ONES}]{{4}}|(?<!\d)0\d|[零〇][{_ONES}]|(?<!\d)[89]\d(?= ?年(?![前后来以之间多]))"
        rf"|(?<!\d)\d\d(?=年(?:\d\d?|[十{_ONES}]+)月)) ?年"
        r"|(?P<month>\d{1,2}|十[一二]?|[一二三四五六七八九])月(?:份)?(?!天(?!气)|[亮光饼台票球嫂])|(?P<day>\d{1,2}|(?<=月)[一二三]?十?[一二三四五六七八九]?)[日号]"
        rf"|(?P<last>上)(?=[几两{_ONES}十\d]+个?[天周月年])|(?P<next>下)(?=[几两{_ONES}十\d]+个?[天周月年])"
        rf"|(?P<phrase>{phrases})|第(?P<ordinal>\d{{1,2}}|[一二三四五六七八九十])|(?P<number>{number})|(?P<mark>[,，。.?？!！;；])|(?P<other>\w+?|[^\w\s])"
    )


def _numeral(text: str) -> int:
    if text.isdigit():
        return int(text)
    if "十" in text:
        tens, _, ones = text.partition("十")
        return 10 * _DIGITS.get(tens, 1) + _DIGITS.get(ones, 0)
    return _DIGITS[text]


def _year(text: str) -> int:
    """Returns a year of four figures or two: "2008", "二零零八", "08", "九八"."""
    figure = int(text) if text.isdecimal() else int("".join(str(_DIGITS.get(one, 0)) for one in text))
    return figure if len(text) == 4 else 2000 + figure if figure < 70 else 1900 + figure


def chinese_tokens(text: str, begin: int, finish: int) -> list[Token]:
    """Returns the tokens of a text from ``begin`` to ``finish``, in order."""
    single, _ = words("zh")
    tokens: list[Token] = []
    codes = {"month": "M", "day": "O", "ordinal": "O", "number": "N"}
    for match in _pattern().finditer(text, begin, finish):
        kind, start, end = match.lastgroup or "other", match.start(), match.end()
        placed = kind == "phrase" and single[match[0]][0][0] == "H" and _PLACES.match(text, end) is not None
        if placed or (kind == "phrase" and _NAMES.match(text, end) is not None):
            tokens.append(Token("x", 0, start, end, match[0]))  # "星期天乐队", "元旦快乐"
        elif kind == "phrase":
            tokens.extend(Token(code, value, start, end, match[0]) for code, value in single[match[0]])
        elif kind in ("last", "next"):
            tokens.append(Token("V" if kind == "last" else "X", 1, start, end, match[0]))  # "上两周"
        elif kind == "year":
            tokens.append(Token("Y", _year(match["year"]), start, end, match[0]))
        elif kind in codes:
            figure = _numeral(match[kind])
            first_year = kind == "number" and 1900 <= figure < 2100 and text[end : end + 1] in ("到", "至")
            tokens.append(Token("Y" if first_year else codes[kind], figure, start, end, match[0]))
        elif kind == "date":
            tokens.append(Token("D", match[0], start, end, match[0]))
        elif kind == "decade":
            figure, century = _numeral(match["decade"]), match["century"] or "上"
            first = {"上": 1900, "本": 2000, "这": 2000}.get(century)
            first = 100 * (_numeral(century) - 1) if first is None else first
            tokens.append(Token("K", figure if figure > 99 else first + figure, start, end, match[0]))
        elif kind == "clock":
            hour, _, minute = match[0].removesuffix("分").partition("点")
            figure = 30 if minute == "半" else _numeral(minute) if minute else 0
            clock = f"{_numeral(hour)}:{figure:02}" if minute else f"{_numeral(hour)}h"
            tokens.append(Token("C", clock, start, end, clock))
        else:
            code = "x" if kind == "other" else "," if match[0] in ",，" else "."
            tokens.append(Token(code, 0, start, end, match[0]))
    return tokens
