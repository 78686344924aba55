"""The forms of tenses: each is found in its example, and a sentence gets its tense from them."""

from __future__ import annotations

import re

import pytest

from pam_retriever.timewords import plans, tense
from pam_retriever.timewords.reader import looks_ahead

TABLES = {
    **{name: getattr(tense, name) for name in ("FUTURE", "WAS", "PERFECT", "PAST", "PARTICIPLE")},
    **{name: getattr(plans, name) for name in ("PLANNED", "ASKED", "PRESENT", "LASTING")},
}
FORMS = [
    (name, language, example, pattern)
    for name, table in TABLES.items()
    for language, forms in table.forms.items()
    for example, pattern in forms
]


@pytest.mark.parametrize(("name", "language", "example", "pattern"), FORMS)
def test_each_form_is_found_in_its_example(name: str, language: str, example: str, pattern: str) -> None:
    assert re.search(pattern, example, re.IGNORECASE)
    assert TABLES[name].search(example, language)


@pytest.mark.parametrize(("name", "language", "example", "pattern"), [form for form in FORMS if form[0] == "PAST"])
def test_an_example_of_the_past_is_found_by_no_other_form(name: str, language: str, example: str, pattern: str) -> None:
    others = [other for _, other in TABLES[name].forms[language] if other != pattern]
    assert not any(re.search(other, example, re.IGNORECASE) for other in others)


@pytest.mark.parametrize(
    ("text", "language", "said", "tells"),
    [
        ("What will we do in June?", "en", False, "future"),
        ("What did we plan for June?", "en", False, "planned"),
        ("What do we have on Sunday?", "en", False, "asked"),
        ("What did we have on Sunday?", "en", False, ""),
        ("Is he away until June?", "en", False, "lasting"),
        ("Was he away until June?", "en", False, ""),
        ("Am I free on Sunday?", "en", False, "present"),
        ("We're moving on the 20th.", "en", True, "present"),
        ("We were moving on the 20th.", "en", True, ""),
        ("After we talked, I remember, the party is on Friday", "en", True, "present"),
        ("Dinner on the 20th.", "en", True, "planned"),
        ("Was haben wir am Montag besprochen?", "de", False, ""),
        ("Was haben wir am Montag?", "de", False, "asked"),
        ("Je reviendrai mardi.", "fr", True, "future"),
        ("周一的晚饭", "zh", True, "planned"),
    ],
)
def test_the_tense_of_a_sentence(text: str, language: str, said: bool, tells: str) -> None:
    assert looks_ahead(text, 0, len(text), language, said) == tells
