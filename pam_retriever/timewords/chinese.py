"""Tokens of Chinese, which has no spaces: the longest known word at each position."""

from __future__ import annotations

import re
from functools import lru_cache

from pam_retriever.timewords.lexicon import Token, words

_DIGITS = {"一": 1, "二": 2, "两": 2, "三": 3, "四": 4, "五": 5, "六": 6, "七": 7, "八": 8, "九": 9}
_NAMES = re.compile("快乐|愉快|乐队|餐厅|咖啡|酒吧|书店|百货|头条")


@lru_cache(maxsize=1)
def _pattern() -> re.Pattern[str]:
    single, _ = words("zh")
    phrases = "|".join(sorted(map(re.escape, single), key=lambda word: -len(word)))
    number = r"\d{1,4}|[一二两三四五六七八九]?十[一二三四五六七八九]?|[一二两三四五六七八九]"
    return re.compile(
        r"(?P<date>\d{4}-\d\d?-\d\d?)"
        r"|(?P<decade>\d{4}|\d0|[二三四五六七八九]十)年代"
        r"|(?P<clock>(?:\d{1,2}|十[一二]?|[二两三四五六七八九]|(?<=午)一)点(?:半|(?:\d{1,2}|[一二三四五]?十[一二三四五六七八九]?)分)?)"
        r"|(?P<year>\d{4})年|(?P<month>\d{1,2}|十[一二]?|[一二三四五六七八九])月(?:份)?(?!天(?!气))|(?P<day>\d{1,2}|(?<=月)[一二三]?十?[一二三四五六七八九]?)[日号]"
        rf"|(?P<phrase>{phrases})|第(?P<ordinal>\d{{1,2}}|[一二三四五六七八九十])|(?P<number>{number})|(?P<mark>[,，。.?？!！;；])|(?P<other>\w+?|[^\w\s])"
    )


def _numeral(text: str) -> int:
    if text.isdigit():
        return int(text)
    if "十" in text:
        tens, _, ones = text.partition("十")
        return 10 * _DIGITS.get(tens, 1) + _DIGITS.get(ones, 0)
    return _DIGITS[text]


def chinese_tokens(text: str, begin: int, finish: int) -> list[Token]:
    """Returns the tokens of a text from ``begin`` to ``finish``, in order."""
    single, _ = words("zh")
    tokens: list[Token] = []
    codes = {"year": "Y", "month": "M", "day": "O", "ordinal": "O", "number": "N"}
    for match in _pattern().finditer(text, begin, finish):
        kind, start, end = match.lastgroup or "other", match.start(), match.end()
        if kind == "phrase" and _NAMES.match(text, end) is not None:
            tokens.append(Token("x", 0, start, end, match[0]))  # "星期天乐队", "元旦快乐"
        elif kind == "phrase":
            tokens.extend(Token(code, value, start, end, match[0]) for code, value in single[match[0]])
        elif kind in codes:
            figure = _numeral(match[kind])
            first_year = kind == "number" and 1900 <= figure < 2100 and text[end : end + 1] in ("到", "至")
            tokens.append(Token("Y" if first_year else codes[kind], figure, start, end, match[0]))
        elif kind == "date":
            tokens.append(Token("D", match[0], start, end, match[0]))
        elif kind == "decade":
            figure = _numeral(match[kind])
            tokens.append(Token("K", figure if figure > 99 else 1900 + figure, start, end, match[0]))
        elif kind == "clock":
            hour, _, minute = match[0].removesuffix("分").partition("点")
            figure = 30 if minute == "半" else _numeral(minute) if minute else 0
            clock = f"{_numeral(hour)}:{figure:02}" if minute else f"{_numeral(hour)}h"
            tokens.append(Token("C", clock, start, end, clock))
        else:
            code = "x" if kind == "other" else "," if match[0] in ",，" else "."
            tokens.append(Token(code, 0, start, end, match[0]))
    return tokens
