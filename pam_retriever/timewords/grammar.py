"""Finds times in tokens by rules over the codes of ``lexicon``; each rule returns a time of the calendar.

A rule is a regular expression over the string of codes, one letter per token. The longest match from the left wins. If
a rule rejects a match (30 February, "May" without a date), the next rule is tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pam_retriever.timewords import counted, dated
from pam_retriever.timewords.match import Atom, Context, Match
from pam_retriever.timewords.tokens import Token

_AT = "(?:[hgu]?t?C|[hi]t?P)"


# a pattern, a code that every match contains, and the function that interprets a match
RULES: tuple[tuple[re.Pattern[str], str, Callable[[Match], Atom | None]], ...] = tuple(
    (re.compile(pattern), code, rule)
    for pattern, code, rule in (
        (rf"(?:C,?n?t?|Pot?)?(?:n?t?W,?)?D(?:#W\.)?(?:,?{_AT})?", "D", dated.figures),
        (rf"(?:C,?n?t?|Pot?)?(?:n?t?W,?t?)?[NO]o?M(?:,?o?Y|o?[LXT]?U[LX]?)?(?:,?{_AT})?", "M", dated.day_and_month),
        (rf"(?:C,?n?t?|Pot?)?(?:n?t?W,?t?)?M#?t?[NO](?:[,#]?Y|o?[LXT]U)?(?:,?{_AT})?", "M", dated.day_and_month),
        (rf"Y?,?M,?[NO]P|Y,?M,?[NO](?:,?{_AT})?", "M", dated.day_and_month),
        (r"[NO]ut?[NO]o?M(?:,?o?Y|o?[LXT]U)?|[NO]o?ut?[NO]o?M", "M", dated.days_and_month),
        (
            r"(?:[fo]t?[NO][uh]|bt?[NO]&)t?[NO]o?M(?:,?o?Y|o?[LXT]U)?|YMOuO|(?:M[NO]u|bM[NO]&)t?[NO](?:,?Y|o?[LXT]U)?",
            "M",
            dated.days_and_month,
        ),
        (r"[LXT]U[i,]?t?M|M(?:,?o?Y|#Y|o?t?[LXT]U|o?tU[LX])?|YM", "M", dated.month),
        (r"[LXTV]M|MLo?(?!U)", "M", dated.counted_month),
        (r"t?U?Y|t?UoY", "Y", dated.year),
        (r"t?K", "K", dated.decade),
        (r"t?UN", "U", dated.decade_of_years),
        (r"UN(?:,?o?Y)?|Y,?UN", "U", dated.numbered_week),
        (r"t?OU", "U", dated.numbered_century),
        (r"t?[LXTV]t?U|t?U[LXT]|t?UL", "U", counted.relative_unit),
        (r"TN[LV]U|t?[LXTV]t?wo?U|t?[LXTV]t?w?NU|t?NU[LX]|t?[NN]?[LXV]NU", "U", counted.rolling_units),
        (r"(?:[hnir]t?)?U", "U", counted.plain_weekend),
        (r"[Nt]UA(?:nW|[WR])|[Nt]Uf[WR]", "U", counted.units_from_day),
        (r"[Nw]o?dA", "d", counted.days_ago),
        (r"c(?:[LX]U|[Nt]UA|iY)", "c", counted.this_day_then),
        (r"[Nt]UA|t?wo?UA|A[Ntw]U|Bw?[Nt]U", "U", counted.ago),
        (r"[Nt]UF|iF?[Ntw]U|F[Ntw]U|wUF", "U", counted.ahead),
        (rf"(?:C)?R(?:i?t?P)?(?:,?{_AT})?|Pn?R", "R", counted.day_from_today),
        (r"t?[LT]P", "P", counted.part_of_day),
        (rf"[LXT]UW|n?Wo?t?[LXT]U|n?t?W[LX]P?|Co?n?W|n?t?[LXT]?W(?:i?t?P)?(?:,?{_AT})?", "W", counted.weekday),
        (r"t?[LXT]t?S|[LXT]US|t?So?[LXT]U|t?S[LXT]|t?S(?:o?Y)?|YS", "S", dated.season),
        (r"t?Q(?:o?Y|o?[LXT]U)?|YQ", "Q", dated.quarter),
        (r"GY|Go?[LXT]U|YG|[LXT]UG", "G", dated.half_year),
        (r"H[LX](?!U)|t?[LXT]?H(?:o?,?Y|o?[LXT]U)?|YH", "H", dated.holiday),
        (
            r"h?t?v(?:uo?|fUo)M(?:o?,?Y)?|h?t?v[oi]?t?(?:K|M(?:o?,?Y|o?[LXT]U)?|Y|[LXT]U|U[LX]|[LXT]?S(?:o?Y)?)|vu?Y|Y?Mv"
            r"|t?v[oi]?tU|[LXT]Uv|Yv|(?:[LXT]U|Y)TUv",
            "v",
            dated.phase,
        ),
        (r"t?(?:[OL](?:N|wo?)?[UW]o|O(?:N|wo?)?[UW]i)M(?:,?o?Y|o?[LXT]U)?", "M", dated.nth_in_month),
        (r"t?[OL]UoY|t?OUY|t?OUo[LXT]U", "U", dated.nth_in_year),
        (r"t?[OL](?:N|wo?)?[UW]o[LXT]U", "U", dated.nth_in_month),
        (r"et?TU|eR", "e", counted.earlier_or_later),
        (r"(?:n(?:W,?)?|(?<=[saqBu])|(?<=Uo))tO|[fb]tO[u&]t?O", "O", dated.day_of_month),
    )
)


def atoms(tokens: list[Token], context: Context) -> list[Atom]:
    """Returns the times in the tokens, in order, without overlaps."""
    codes = "".join(token.code for token in tokens)
    found = [
        (match.start(), -match.end(), order)
        for order, (pattern, code, _) in enumerate(RULES)
        if code in codes
        for match in pattern.finditer(codes)
        if match.end() > match.start()
    ]
    chosen: list[Atom] = []
    free = 0
    for start, end, order in sorted(found):
        if start < free or (start and codes[start - 1] == "E"):
            continue
        try:
            atom = RULES[order][2](Match(tokens, start, -end - 1, context))
        except (ValueError, OverflowError):  # before the year 1, or after 9999
            continue
        if atom is not None:
            chosen.append(atom)
            free = -end
    return chosen
