"""Holidays by the names that ``vocabulary`` gives them: each is a function of the year."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from pam_retriever.timewords.dates import easter_sunday, public_holiday
from pam_retriever.timewords.periods import DAY, Span, nth_weekday

Feast = Callable[[int], Span | None]  # the span in a year; None for a year that the library does not know


def _easter(shift: int, length: int = 1) -> Feast:
    def of(year: int) -> Span:
        day = easter_sunday(year) + timedelta(days=shift)
        return day, day + length * DAY

    return of


def _fixed(month: int, day: int, length: int = 1) -> Feast:
    return lambda year: (datetime(year, month, day), datetime(year, month, day) + length * DAY)


def _nth(month: int, weekday: int, nth: int, shift: int = 0) -> Feast:
    def of(year: int) -> Span:
        found = nth_weekday(year, month, weekday, nth)
        assert found is not None  # every month has a first to fourth, and a last, of each weekday
        return found[0] + shift * DAY, found[1] + shift * DAY

    return of


def _public(country: str, name: str, shift: int = 0) -> Feast:
    """Returns a holiday of a calendar that is not ours, as a country keeps it; or a day beside its first."""

    def of(year: int) -> Span | None:
        days = public_holiday(country, name, year)
        if not days:
            return None
        return (days[0] + shift * DAY, days[0] + (shift + 1) * DAY) if shift else (days[0], days[-1] + DAY)

    return of


HOLIDAYS: dict[str, Feast] = {
    "christmas": _fixed(12, 25),
    "christmas days": _fixed(12, 24, 3),
    "christmas eve": _fixed(12, 24),
    "the holidays": _fixed(12, 24, 9),
    "new year": _fixed(1, 1),
    "new year's eve": _fixed(12, 31),
    "epiphany": _fixed(1, 6),
    "mlk day": _nth(1, 0, 3),
    "valentine": _fixed(2, 14),
    "presidents' day": _nth(2, 0, 3),
    "women's day": _fixed(3, 8),
    "st patrick's day": _fixed(3, 17),
    "april fools": _fixed(4, 1),
    "may 1": _fixed(5, 1),
    "mother's day": _nth(5, 6, 2),
    "mother's day in France": _nth(5, 6, -1),
    "mother's day in Spain": _nth(5, 6, 1),
    "memorial day": _nth(5, 0, -1),
    "children's day": _fixed(6, 1),
    "father's day": _nth(6, 6, 3),
    "may holidays": _fixed(5, 1, 5),
    "juneteenth": _fixed(6, 19),
    "st john's day": _fixed(6, 24),
    "july 4": _fixed(7, 4),
    "assumption": _fixed(8, 15),
    "labor day": _nth(9, 0, 1),
    "teachers' day": _fixed(9, 10),
    "rentrée": _fixed(9, 1),
    "golden week": _fixed(10, 1, 7),
    "october 1": _fixed(10, 1),
    "october 3": _fixed(10, 3),
    "columbus day": _nth(10, 0, 2),
    "halloween": _fixed(10, 31),
    "all saints": _fixed(11, 1),
    "all souls": _fixed(11, 2),
    "bonfire night": _fixed(11, 5),
    "november 11": _fixed(11, 11),
    "thanksgiving": _nth(11, 3, 4),
    "black friday": _nth(11, 3, 4, 1),
    "cyber monday": _nth(11, 3, 4, 4),
    "december 12": _fixed(12, 12),
    "st nicholas": _fixed(12, 6),
    "boxing day": _fixed(12, 26),
    "carnival monday": _easter(-48),
    "shrove tuesday": _easter(-47),
    "ash wednesday": _easter(-46),
    "palm sunday": _easter(-7),
    "holy week": _easter(-7, 8),
    "maundy thursday": _easter(-3),
    "good friday": _easter(-2),
    "easter": _easter(0),
    "easter monday": _easter(1),
    "ascension": _easter(39),
    "pentecost": _easter(49),
    "whit monday": _easter(50),
    "corpus christi": _easter(60),
    "chinese new year": _public("CN", "Spring Festival"),
    "chinese new year's eve": _public("CN", "Spring Festival", -1),
    "lantern": _public("CN", "Spring Festival", 14),
    "chung yeung": _public("HK", "Chung Yeung"),
    "qingming": _public("CN", "Tomb-Sweeping"),
    "dragon boat": _public("CN", "Dragon Boat"),
    "mid-autumn": _public("CN", "Mid-Autumn"),
    "diwali": _public("IN", "Diwali"),
    "holi": _public("IN", "Holi"),
    "purim": _public("IL", "Purim"),
    "passover": _public("IL", "Pesach"),
    "rosh hashanah": _public("IL", "Rosh Hashanah"),
    "yom kippur": _public("IL", "Yom Kippur"),
    "sukkot": _public("IL", "Sukkot"),
    "hanukkah": _public("IL", "Hanukkah"),
    "eid": _public("TR", "Eid al-Fitr"),
    "eid al-adha": _public("TR", "Eid al-Adha"),
}
