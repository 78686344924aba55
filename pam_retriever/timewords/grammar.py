"""Finds times in tokens by rules over the codes of ``vocabulary``; each rule returns a time of the calendar.

A rule is a regular expression over the string of codes, one letter per token. The longest match from the left wins. If
a rule rejects a match (30 February, "May" without a date), the next rule is tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from pam_retriever.timewords import counted, dated, ordinal, phases, weekdays
from pam_retriever.timewords.hours import AT, CLOCK, PART
from pam_retriever.timewords.lexicon import Token
from pam_retriever.timewords.match import Atom, Context, Match

_MORE = "(?!t?O|,?[oi]?t?(?:[LXT]U|U[LX])|[iF]?[Nt]U)"  # a weekday before these is of another rule
_REPEATED = re.compile("E[UWMSHP]")  # "each day" last week
_YEAR = "(?:,?[oi]?t?U?Y|o?t?[LXT]U|o?t?U[LX]|,?[Nt]UA|,?A[Nt]U|,?BNU)"
_WEEKDAY = "n?t?[TX]{0,2}W"  # beside its date: "this Friday, 7 June"
_ITS_WEEKDAY = r"(?:[,#]?W(?=[.,&]|$))?"  # behind its date: "Jul 18, Fri"
_THAT_MONTH = "[oi]?t?(?:[LXT]U|U[LX])"  # "this month", "of last month"
_TO = "[&u,]"  # between the two counts of "two or three weeks ago"
_OF_WEEK, _LEADING_WEEK = "(?:[LXT]U|U[LX])", "[LXT]U"
_LEAD = "(?:[LXT]U|t?U[LX])[inhr,]?t?"  # "last year at" Christmas


# a pattern, a code that every match contains, and the function that interprets a match
RULES: tuple[tuple[re.Pattern[str], str, Callable[[Match], Atom | None]], ...] = tuple(
    (re.compile(pattern), code, rule)
    for pattern, code, rule in (
        (rf"(?:[haBq]?C,?n?t?|Pot?)?(?:{_WEEKDAY},?t?)?D(?:[,#]W\.|{_ITS_WEEKDAY})", "D", dated.figures),
        (
            rf"(?:[haBq]?C,?n?t?|Pot?)?(?:{_WEEKDAY},?t?)?[NO]o?M,?{_YEAR}?{_ITS_WEEKDAY}",
            "M",
            dated.day_and_month,
        ),
        (
            rf"(?:[haBq]?C,?n?t?|Pot?)?(?:{_WEEKDAY},?t?)?M[#,]?t?[NO](?:[,#]?[oi]?Y|o?[LXT]U)?{_ITS_WEEKDAY}",
            "M",
            dated.day_and_month,
        ),
        (r"Y?,?M,?[NO]PC?|Y,?M,?[NO]", "M", dated.day_and_month),
        (r"[NO](?=(?:[&,]t?[NO])*&t?[NO]o?M)|(?:(?<=M[NO]&)|(?<=M[NO]&t))[NO]", "", ordinal.day_of_list),
        (r"(?:f?t?W)?[NO]o?(?:uh?|h)t?W?[NO]o?M(?:,?o?Y|o?[LXT]U)?", "M", dated.days_and_month),
        (
            rf"(?:[fos]t?)?[NO]uh?t?[NO]{_THAT_MONTH}|bt?[NO][&u]t?[NO]{_THAT_MONTH}|[LXT]U[NO]uO",
            "U",
            ordinal.days_of_that_month,
        ),
        (
            r"(?:[fos]t?[NO][uh]|bt?[NO][&u])t?[NO]o?M(?:,?o?Y|o?[LXT]U)?|YMOuO|(?:M[NO]u|bM[NO]&)t?[NO](?:,?Y|o?[LXT]U)?",
            "M",
            dated.days_and_month,
        ),
        (r"MoN", "M", dated.of_short_year),
        (r"So?N", "S", dated.of_short_year),
        (r"QN", "Q", dated.of_short_year),
        (r"GN", "G", dated.of_short_year),
        (rf"{_LEAD}M|M#Y|M{_YEAR}?|YM", "M", dated.month),
        (r"T?[LXTV]M|MLo?(?!U)|MX", "M", dated.counted_month),
        (r"t?U?Y|t?UoY", "Y", dated.year),
        (r"t?U?J", "J", dated.two_years),
        (r"t?U?YuN(?!M)", "Y", dated.two_years),
        (r"t?K", "K", dated.decade),
        (r"t?UN", "U", dated.decade_of_years),
        (r"UN[u&]N(?:,?o?Y)?", "U", ordinal.numbered_weeks),
        (r"UN(?:,?o?Y)?|Y[,u]?UN", "U", ordinal.numbered_week),
        (r"t?(?:v[oi]?t?)?OU", "U", ordinal.numbered_century),
        (r"t?OUot?K", "K", ordinal.half_of_decade),
        (rf"OU{_YEAR}?", "U", ordinal.numbered_week),
        (r"t?T?[LXTV]t?U|t?TVU", "U", counted.relative_unit),
        (r"t?U[LXT]", "U", counted.relative_unit),
        (
            r"TN[LV]U|t?[LXTV]t?wo?U|t?[LXTV]t?w?NU|[tTo]?N[LVX]U|t?NU[LX]|t?[NN]?[LXV]NU"
            r"|s(?:[Nt]|t?wo?)U(?![ABaoLX])",
            "U",
            counted.rolling_units,
        ),
        (rf"t?[LXV]N{_TO}?NU|[tTo]?N{_TO}N[LV]U", "U", counted.rolling_units),
        (r"t?k(?=[u&q])|(?<=bk&)t?k", "k", counted.now),
        (r"(?:[hnir]?t?)?U", "U", counted.plain_weekend),
        (r"[Nt]UA(?:nW|[WR])|[Nt]Uf[WR]|R[BA][Nt]U", "U", counted.units_from_day),
        (r"n?t?W(?:[iF][Nt]U|[Nt]UF|B[Nt]U|[Nt]UA)", "W", weekdays.weekday_in_weeks),
        (r"[Nw]o?dA|ANd", "d", counted.days_ago),
        (r"d", "d", weekdays.weekday_of_thing),
        (r"c,?(?:[LX]U|t?U[LX]|[Nt]UA|iY)|(?:[LX]U|t?U[LX]|[Nt]UA)[hgiuo]?t?c", "c", counted.this_day_then),
        (r"tU&tUA|N&tUUA|A[Nt]U&U|NUUA", "U", counted.half_more_ago),
        (r"[LX]Uo?R", "R", counted.this_day_then),
        (r"[Ba](?:[Nt]|t?wo?)U(?!A)", "U", counted.of_age),
        (r"(?:[LXT]U|Y)[AFO]NU", "U", ordinal.units_of_period),
        (rf"N{_TO}?NUA|AN{_TO}NU|BN{_TO}NU", "U", counted.between_ago),
        (
            rf"{CLOCK}?(?:[Nt]UA(?!nW)|t?wo?UA|A(?:N?[Ntw]|wN)o?U)",
            "U",
            counted.ago,
        ),
        (rf"{CLOCK}?B(?:w?[Nt]|tN|t?wo?)U", "U", counted.ago),
        (r"tU&NA", "A", counted.between_ago),
        (r"n?WU", "W", weekdays.weekday_week),
        (r"i(?:[Nt]|t?wo?)U", "U", counted.within),
        (r"[Nt]UF|iF?(?:[Nt]|t?wo?)U|F[Ntw]U|wUF", "U", counted.ahead),
        (rf"{CLOCK}?R|Pn?R", "R", counted.day_from_today),
        (rf"(?:{CLOCK}|[hgaBq]N)?(?:v?t?[LT]P)(?:,?{AT})?|t?P[LX]", "P", counted.part_of_day),
        (r"(?:bt?[NC]&|ft?[NC]u|[CN]u)t?C|[aBghuP]?t?C", "C", counted.time_of_today),
        (
            rf"[LXT]Un?W{PART}?C?|n?t?W,?[oi]?t?(?:[LXT]U|U[LX])|n?t?W[LX]P?|{CLOCK}[LXTV]?W{_MORE}|Pon?t?W{_MORE}|n?t?T?[LXTV]?W{PART}?(?:,?{AT})?",
            "W",
            weekdays.weekday,
        ),
        (rf"n?t?W(?=(?:[,&]n?t?W)*&n?t?Wo?t?{_OF_WEEK})|(?<={_LEADING_WEEK}W&)W", "W", weekdays.weekday_of_list),
        (r"n?t?W,?t?[NO](?=[.,&ubf]|$|[hg]t?C)|n?t?WtO(?![MoNZ])", "W", weekdays.weekday_and_day),
        (r"t?So?(?:J|Yu[YN])", "S", dated.season),
        (rf"t?T?[LXTV]t?SU?|{_LEAD}S|t?S[LX](?!U)|t?SU?{_YEAR}?|YS|t?Uo?SU?{_YEAR}?", "S", dated.season),
        (rf"T?t?Q{_YEAR}?|U?Yu?Q|{_LEAD}Q", "Q", dated.quarter),
        (rf"G{_YEAR}?|U?Yu?G|[LXT]UG", "G", dated.half_year),
        (rf"t?[LXT]?HU{_YEAR}?|(?<!B)t?Uot?H{_YEAR}?", "H", dated.week_of_holiday),
        (r"H[AF]NU", "H", dated.beside_holiday),
        (rf"H[LX](?!U)|(?:t?[LXT]?H(?:iY|{_YEAR})?|YH|{_LEAD}H)P?", "H", dated.holiday),
        (
            r"h?t?v(?:uo?|[fo]Uo)M(?:o?,?Y)?|h?t?v[oi]?t?(?:K|M(?:o?,?Y|o?t?[LXT]U|o?t?U[LX])?|Y|[LXT]U|U[LX]|[LXT]?S(?:o?Y)?)|vu?Y|h?t?vuK|Y?Mv"
            r"|t?v[oi]?t?U|[LXT]Uv|[YK]v|(?:[LXT]U|Y)TUv",
            "v",
            phases.phase,
        ),
        (rf"h?t?v[oi]?t?Q{_YEAR}?", "Q", phases.phase_of_quarter),
        (
            r"n?t?(?:[OL](?:N|wo?)?[UW]o|O(?:N|wo?)?[UW]i|(?<=[nt])L(?:N|wo?)?[UW]i|LWi)t?M(?:,?o?Y|o?[LXT]U)?",
            "M",
            ordinal.nth_in_month,
        ),
        (
            rf"[LXT]UOU|Y,?t?OU|t?OU(?:{_YEAR}|ot?U)?|t?(?:[OL](?:N|w)?|N[OL])U(?:oY|ot?[LXT]?U|oU[LX])",
            "U",
            ordinal.nth_in_year,
        ),
        (r"t?[OL](?:N|wo?)?[UW]o(?:t?[LXT]U|t?U[LX]|t?U)|[LXT]Uo?ON?[UW]", "U", ordinal.nth_in_month),
        (rf"Y?M{_YEAR}?o?ON?[UW]", "M", ordinal.nth_in_month),
        (r"et?TU|ei?tU|eR|exU|eU", "e", counted.earlier_or_later),
        (r"n?t?[NO]o(?:t?[LXT]U|t?U[LX]|t?U)|n?t?O[LXT]U|[LXT]UO", "U", ordinal.day_of_that_month),
        (r"Pot?O|(?:n(?:W,?)?|(?<=[saqBur])|(?<=Uo))tO|nO(?=[.,&]|$)|[fb]t?O[u&]h?t?O", "O", ordinal.day_of_month),
        (r"t?O", "O", ordinal.day_of_month),
        (r"(?:t|tU|(?<=f)|(?<=Uo))NP?(?=[.,&]|$|[hug]t?C)|[fo]t?N[uh]t?N(?=[.,&]|$)", "N", ordinal.day_without_ordinal),
    )
)


@lru_cache(maxsize=4096)
def _found(codes: str) -> list[tuple[int, int, int]]:
    """Returns the matches of all rules in codes: start, minus the end, and the rule; sorted."""
    return sorted(
        (match.start(), -match.end(), order)
        for order, (pattern, code, _) in enumerate(RULES)
        if code in codes
        for match in pattern.finditer(codes)
        if match.end() > match.start()
    )


def atoms(tokens: list[Token], context: Context) -> list[Atom]:
    """Returns the times in the tokens, in order, without overlaps."""
    codes = _REPEATED.sub("xx", "".join(token.code for token in tokens))
    # rules match no "x" or "Z", and look at most one token ahead
    lead, last = len(codes) - len(codes.lstrip("xZ")), len(codes.rstrip("xZ")) + 1
    chosen: list[Atom] = []
    free = 0
    for start, end, order in _found(codes[lead:last]):
        start, end = start + lead, end - lead
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
