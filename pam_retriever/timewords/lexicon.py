"""Words of time by language, the words that distinguish languages, and tokens with the codes of ``vocabulary``."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from pam_retriever.timewords.vocabulary import SOURCES

Value = str | int
Entry = tuple[tuple[str, Value], ...]  # one or more (code, value)
LANGUAGES = tuple(SOURCES)


class Token(NamedTuple):
    """A word or a figure with its code (see ``vocabulary``), its value, and its position."""

    code: str
    value: Value
    start: int
    end: int
    text: str
    weak: bool = False  # in this spelling it may be a common word ("may", "march", "sun")


def listed(words: str) -> frozenset[str]:
    """Returns the words of a text."""
    return frozenset(words.split())


# words that distinguish the languages
_TELLING = {
    "en": "the what who did were is in on and of to i we you she he it they where which when how for with my",
    "de": "der die das wer ist war haben wir und im am ich nicht wann wo wie den dem ein eine mit hat sie auf für zu"
    " bei nach mein meine hab uns mir noch"
    " steht welche welchen welcher kommt kommen gibt kann vom zum zur beim kw darf man muss soll",
    "fr": "le la les qui que qu est nous et en des du dans je pas quand il elle une un avons ont au été on fait ce"
    " avant après quart environ peu y ma mes ses sa chez avec sur où quel quelle",
    "es": "el la los qué quién que y en del por para con no una un fue pasó hace está cuándo es su yo lo antes después"
    " mi mis te se nos con muy ya hoy",
}
TELLING = {language: listed(words) for language, words in _TELLING.items()}
LETTERS = {"de": frozenset("äöüß"), "fr": frozenset("àâçèéêîôùûœ"), "es": frozenset("áéíñóú¿¡")}
# words that are also common words: a month or weekday only with a capital, or in a text without capitals
HOMONYMS = listed("may march mar jan jun sep dec oct nov sun sat wed mon april june august fri thu tue")
# given names that are also months: "for June" and "after May" are times only with a year or a day
NAMES = listed("may april june august jan")


# after these, "to June" is the time of a plan, not a person
MOVED = listed("moved postpone postponed pushed rescheduled delayed deferred shifted back forward up")


# words that have another meaning after (True), or not after (False), a token with one of these codes
DEPENDING: dict[str, tuple[str, bool, Entry | None]] = {
    "morgen": ("Rn", True, (("P", "morning"),)),  # "heute Morgen", "am Morgen"
    "mañana": ("Tt", True, (("P", "morning"),)),  # "esta mañana"
    "following": ("U", True, (("a", 1),)),  # "the week following 10 July", unlike "the following week"
    "preceding": ("t", True, (("L", 1),)),  # "the preceding week", unlike "the week preceding 10 July"
    **dict.fromkeys(
        ("starting", "commencing", "ending", "ended"), ("U", True, (("o", 1),))
    ),  # "the week ending 6 September"
    "beginning": ("U", True, (("o", 1),)),
    **dict.fromkeys(("pm", "am", "eve"), ("RWT", False, None)),  # "yesterday pm", unlike "the PM"
    "mo": ("NtLXTV", False, None),  # "2 mo ago", unlike "Mo Farah"
    "du": ("vPNOUSHQ", True, (("o", 1),)),  # "à la fin du mois dernier", unlike "du 3 au 10 mai"
    "sept": ("NO", True, (("M", 9),)),  # "20 sept. 2014", unlike "sept jours"
    **dict.fromkeys(("passé", "passée", "passés", "passées"), ("UWSMH", False, None)),  # "s'est-il passé"
    **dict.fromkeys(
        ("pasado", "pasada", "pasados", "pasadas"), ("UWSMHtN", False, None)
    ),  # "ha pasado", unlike "el pasado lunes"
    "back": ("Ud", False, None),  # "a week back", unlike "I'll be back Friday"
}


@lru_cache(maxsize=8)
def words(language: str) -> tuple[dict[str, Entry], dict[str, list[tuple[tuple[str, ...], Entry]]]]:
    """Returns the words of a language, and its phrases by their first word, the longest first."""
    single: dict[str, Entry] = {}
    phrases: dict[str, list[tuple[tuple[str, ...], Entry]]] = {}
    for line in SOURCES[language].replace("\n", "|").split("|"):
        if not line.strip():
            continue
        head, _, names = line.partition(": ")
        entry = tuple(_coded(part) for part in head.split())
        for name in (form for found in names.split() for form in _spellings(found)):
            parts = tuple(name.split("_"))
            if len(parts) == 1:
                single[name] = entry
            else:
                phrases.setdefault(parts[0], []).append((parts, entry))
    if language == "en":
        _add_spoken_years(single, phrases)
    _add_numbers(single, phrases, language)
    _add_forms(single, language)
    _add_plain(single, phrases, language)
    _add_misspelt(single)
    for found in phrases.values():
        found.sort(key=lambda phrase: -len(phrase[0]))
    return single, phrases


def _spellings(name: str) -> set[str]:
    """Returns a name, and its forms without apostrophe and in short: "mothers day", "presidents' day", "xmas eve"."""
    forms = {name, name.replace("'s", "s"), name.replace("'s_day", "s_'_day")} if "'s_" in name + "_" else {name}
    return forms | (
        {name.replace("christmas", "xmas")} if name in ("christmas", "christmas_day", "christmas_eve") else set()
    )


_WHOLE_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def _add_spoken_years(single: dict[str, Entry], phrases: dict[str, list[tuple[tuple[str, ...], Entry]]]) -> None:
    """Adds "nineteen ninety nine", "twenty fifteen", "twenty twenty-three", "two thousand and five"."""
    names = {entry: name for name, entry in single.items()}
    small: list[tuple[tuple[str, ...], int]] = [((names[("N", number),],), number) for number in range(1, 20)]
    large: list[tuple[tuple[str, ...], int]] = []
    for first, ten in enumerate(_WHOLE_TENS, 2):
        large.append(((ten,), 10 * first))
        for (one,), last in small[:9]:
            large += [((ten, one), 10 * first + last), ((f"{ten}-{one}",), 10 * first + last)]
    years = [(("nineteen", *spoken), 1900 + number) for spoken, number in small[9:] + large]
    years += [(("twenty", *spoken), 2000 + number) for spoken, number in small[9:] + large if number < 40]
    years += [(("two", "thousand", *link, *spoken), 2000 + n) for spoken, n in small for link in ((), ("and",))]
    for spoken, year in years:
        phrases.setdefault(spoken[0], []).append((spoken, (("Y", year),)))


_TENS = {  # with the words that join them to one, and to other numbers
    "en": {"twenty": 20, "thirty": 30},
    "de": {"zwanzig": 20, "dreißig": 30},
    "fr": {"vingt": 20, "trente": 30},
    "es": {"treinta": 30},
}


def _add_numbers(
    single: dict[str, Entry], phrases: dict[str, list[tuple[tuple[str, ...], Entry]]], language: str
) -> None:
    """Adds the numbers above twenty: "twenty one", "thirty-first", "vingt et un", "treinta y uno", "einundzwanzig"."""
    ones = [(name, *entry[0]) for name, entry in single.items() if len(entry) == 1 and entry[0][0] in "NO"]
    for ten, first in _TENS.get(language, {}).items():
        for name, code, value in ones:
            if not isinstance(value, int) or not 1 <= value <= 9:
                continue
            entry: Entry = ((code, first + value),)
            if language == "de":
                single[f"{name.removesuffix('s') if value == 1 else name}und{ten}"] = entry
                continue
            link = ("y",) if language == "es" else ("et",) if language == "fr" and value == 1 else ()
            phrases.setdefault(ten, []).append(((ten, *link, name), entry))
            single.setdefault("-".join((ten, *link, name)), entry)
    if language == "de":
        _add_german_ordinals(single)


def _add_german_ordinals(single: dict[str, Entry]) -> None:
    """Adds "elfte" and "einundzwanzigsten"."""
    for name, entry in list(single.items()):
        (code, value), *rest = entry
        if code == "N" and not rest and isinstance(value, int) and 11 <= value <= 31:
            stem = name + ("t" if value < 20 else "st")
            single.update({stem + ending: (("O", value),) for ending in ("e", "en", "er")})


_ACCENTS = str.maketrans("áéíóúâêîôûàèëïñç", "aeiouaeiouaeeinc")
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ß": "ss"})
_OTHERS = listed("passe a ou des")  # words that an accent tells from a word of time


def _add_plain(
    single: dict[str, Entry], phrases: dict[str, list[tuple[tuple[str, ...], Entry]]], language: str
) -> None:
    """Adds words as a keyboard without accents or hyphens writes them: "proximo", "naechste", "avant hier"."""
    letters = _UMLAUTS if language == "de" else _ACCENTS
    for word, entry in list(single.items()):
        for form in {word, word.translate(letters)} - _OTHERS:
            single.setdefault(form, entry)
            if "-" in form:
                parts = tuple(form.split("-"))
                phrases.setdefault(parts[0], []).append((parts, entry))
    for parts, entry in [phrase for found in phrases.values() for phrase in found]:
        plain = tuple(part.translate(letters) for part in parts)
        if plain != parts:
            phrases.setdefault(plain[0], []).append((plain, entry))


def _add_forms(single: dict[str, Entry], language: str) -> None:
    """Adds the words that a language forms of others: "上周一", "Freitagabend", "Tuesdays"."""
    if language == "zh":
        days = [(name, entry) for name, entry in single.items() if entry[0][0] == "W"]
        single.update({"个" + name: entry for name, entry in days})  # "第一个周一"
        for prefix, code, count in (("上", "L", 1), ("上上", "L", 2), ("这", "T", 1), ("本", "T", 1), ("下", "X", 1)):
            for word in (prefix, prefix + "个"):
                single.update({word + name: ((code, count), ("U", "week"), *entry) for name, entry in days})
    if language == "de":
        named = {name: entry for name, entry in single.items() if entry[0][0] in "WPC"}
        firsts, lasts = ([name for name, entry in named.items() if entry[0][0] in codes] for codes in ("W", "PC"))
        single.update({day + part: named[day] + named[part] for day in firsts for part in lasts})  # "Freitagabend"
        single.update({f"{day}morgen": (*named[day], ("P", "morning")) for day in firsts})
        _add_german_compounds(single)
    if language == "fr":
        single.update(
            {f"{name}s": (("d", f"W{entry[0][1]}"),) for name, entry in [*single.items()] if entry[0][0] == "W"}
        )
    if language == "es":
        single.update({"sábados": (("d", "W5"),), "domingos": (("d", "W6"),)})
    if language == "en":
        dated = [(name, *entry[0]) for name, entry in single.items() if entry[0][0] in "WSHP" and len(name) > 3]
        plurals = [(name + ("es" if name.endswith("s") else "s"), f"{code}{value}") for name, code, value in dated]
        single.update({name: (("d", meaning),) for name, meaning in plurals if name not in single})


_SWAPPED = {"a": "eo", "e": "ai", "i": "ey", "o": "au", "u": "o", "y": "i"}
_PLAIN = str.maketrans("áéíóúâêîôûàèäöü", "aeiouaeiouaeaou")
_REAL = listed("gesten domino vienes sontag")  # misspelt words of time that are words


@lru_cache(maxsize=1)
def _all_words() -> frozenset[str]:
    return frozenset(word for source in SOURCES.values() for word in source.replace("|", " ").split())


def _add_misspelt(single: dict[str, Entry]) -> None:
    """Adds days and months with two letters exchanged, one letter doubled or missing, or a wrong vowel or accent."""
    for word, entry in list(single.items()):
        if len(entry) > 1 or entry[0][0] not in "MWR" or not word.isalpha() or not word[0].isascii() or len(word) < 5:
            continue
        forms = {word.translate(_PLAIN)}
        inner = range(1, len(word) - 1)
        if len(word) > 5:
            forms |= {word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in inner}
        if len(word) > 6:
            forms |= {word[:at] + word[at] + word[at:] for at in inner} | {word[:at] + word[at + 1 :] for at in inner}
            forms |= {word[:at] + vowel + word[at + 1 :] for at in inner for vowel in _SWAPPED.get(word[at], "")}
        single.update({form: entry for form in forms - _all_words() - _REAL if form not in single})


def _add_german_compounds(single: dict[str, Entry]) -> None:
    """Adds "Augusthälfte", "Septemberwoche", "Augusttagen", "Jahresende", "Osterwochenende"."""
    of: tuple[str, Value] = ("o", 1)
    months = [(name, entry) for name, entry in single.items() if entry[0][0] == "M" and len(name) > 2]
    for ending, unit in (("hälfte", "half"), ("woche", "week"), ("tag", "day"), ("tagen", "day"), ("tage", "day")):
        several: Entry = (("w", 1),) if ending in ("tagen", "tage") else ()
        single.update({name + ending: (*several, ("U", unit), of, *entry) for name, entry in months})
    for word, unit in (("jahres", "year"), ("monats", "month"), ("wochen", "week"), ("quartals", "quarter")):
        for ending, phase in (("anfang", "begin"), ("beginn", "begin"), ("mitte", "mid"), ("ende", "end")):
            single[word + ending] = (("v", phase), of, ("U", unit))
    weekend: Entry = (("U", "weekend"),)
    single["wochenende"] = weekend  # not the end of the week
    for word, feast in (("oster", "easter"), ("pfingst", "pentecost"), ("weihnachts", "christmas")):
        single[word + "wochenende"] = (("H", feast), *weekend)


def _coded(part: str) -> tuple[str, Value]:
    code, value = part[0], part[1:].replace("_", " ")
    return code, int(value) if value.lstrip("-").isdigit() else value
