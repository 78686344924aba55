"""The terms that a mistyped term may have been meant to be: those that differ from it by one typing error.

Four of five typing errors are one of these: a letter too many, one missing, a wrong one, two swapped (Damerau 1964).
"""

from __future__ import annotations

SHORTEST, LONGEST = 5, 20  # letters of a stemmed term; shorter ones have too many neighbours
ALPHABETS = (
    "abcdefghijklmnopqrstuvwxyz",
    "абвгдежзийклмнопрстуфхцчшщъыьэюя",
    "αβγδεζηθικλμνξοπρστυφχψω",
)  # letters as the index has them: small, without accents


def misspellings(term: str) -> list[str]:
    """Returns the terms that differ from a term by one typing error after the first letter, sorted.

    There are none for a term that is short or long, and for one with a digit or with letters of no known alphabet: it
    is a number, a code, or of a script in which this says little.
    """
    alphabet = next((one for one in ALPHABETS if set(term) <= set(one)), "")
    if not alphabet or not SHORTEST <= len(term) <= LONGEST:
        return []
    parts = [(term[:at], term[at:]) for at in range(1, len(term) + 1)]
    missing = [head + letter + tail for head, tail in parts for letter in alphabet]
    added = [head + tail[1:] for head, tail in parts if tail]
    wrong = [head + letter + tail[1:] for head, tail in parts if tail for letter in alphabet]
    swapped = [head + tail[1] + tail[0] + tail[2:] for head, tail in parts if len(tail) > 1]
    return sorted({*missing, *added, *wrong, *swapped} - {term})
