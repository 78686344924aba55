"""Things that have a date: beside one, a time needs no preposition ("dec bills", "rent july", "tue sync")."""

from __future__ import annotations

from pam_retriever.timewords.lexicon import Token, listed
from pam_retriever.timewords.match import Match
from pam_retriever.timewords.standing import NAMES_OR_WORDS, phrase_ends

_EVENTS = listed(
    "meeting meetings mtg mtgs call calls sync syncs standup standups stand-up retro retros retrospective review"
    " reviews demo demos planning kickoff workshop workshops session sessions class classes lesson lessons lecture"
    " lectures seminar seminars webinar training practice rehearsal interview interviews appointment appointments appt"
    " checkup exam exams quiz shift shifts game match race run ride hike hikes walk swim workout workouts gym yoga"
    " breakfast brunch lunch dinner supper bbq barbecue picnic party wedding graduation concert gig trip trips flight"
    " flights drive visit visits tour holiday vacation conference conf summit offsite retreat sprint deploy deploys"
    " deployment release rollout outage incident incidents backup backups migration plans delivery deliveries"
    " inspection maintenance surgery therapy physio haircut podcast dentist doctor gp vet optician"
)
_RECORDS = listed(
    "note notes minutes agenda recap summary report reports invoice invoices bill bills receipt receipts payslip"
    " payslips paycheck payroll salary rent mortgage payment payments expense expenses statement statements budget"
    " numbers figures sales revenue spend spending targets goals resolutions tax taxes order orders photo photos pic"
    " pics picture pictures video videos recording recordings log logs reading readings results feedback rota"
    " timesheet timesheets newsletter update updates todo todos tasks homework actions presents renewal"
    " deck okrs roadmap"
)
THINGS = _EVENTS | _RECORDS
_OF_A_DAY = listed(
    "weather temperature forecast news headlines menu weight steps calories sleep mood diary journal entry entries"
)
_SHOWN = listed("me us all any total compare show find list get send check see open")  # before "june receipts"
_ASKING = listed("what who where which when how")  # "ate what fri lunch"
_GENERAL = listed("recipe recipes idea ideas template templates tip tips outfit costume costumes size button")
_VERBS = listed(  # "we may bill you", "he may visit"
    "bill call review practice race run ride hike walk swim visit tour deploy release note report rent order log update"
    " spend demo sync drive picture match video"
)
_NAMED = listed("may april june august jan")  # "call june" calls a person
_OF_SCORES = listed("exam exams results practice class classes training session sessions")  # of the SAT
_SEVERAL_YEARS = listed(  # these have a year, not a number: "trip 2019", unlike "invoice 2019"
    "rent budget payroll revenue spend tax taxes trip holiday vacation wedding graduation conference conf summit"
    " retreat"
)
_UNCOUNTED = listed("taxes goals resolutions sales expenses targets plans")
_PLACED = listed("photos pics pictures videos trip holiday vacation wedding conference")  # "photos paris 2018"


def is_of_thing(match: Match, named: str, most: int = 0) -> bool:
    """Whether a time is of a thing beside it: "dec bills", "thu team sync", "payslip may".

    Args:
        match: a month, a weekday, a season, a holiday, a weekend or a year.
        named: its name in the text.
        most: the number of words that may be between the time and the thing behind it.
    """
    if match.context.language != "en":
        return False
    lowered = named.lower().rstrip(".")
    doubtful = lowered in NAMES_OR_WORDS
    return _leads(match, lowered, 0 if doubtful else most) or _follows(match, lowered)


def _leads(match: Match, lowered: str, most: int) -> bool:
    """Whether a thing is behind the time: "tue sync", "tue team sync", "tue sync agenda"."""
    tokens, at, language = match.tokens, match.last + 1, match.context.language
    front = tokens[match.first - 1] if match.first else None
    allowed = _SHOWN | _RECORDS if lowered in NAMES_OR_WORDS else _SHOWN | _RECORDS | _ASKING
    short = 0 < len(lowered) <= _SHORT and lowered not in NAMES_OR_WORDS  # "phone contract sept invoice"
    if front is not None and front.code in "xZ#" and front.text.lower() not in allowed and not short:
        return False
    while at < len(tokens) and most and tokens[at].code == "x" and tokens[at].text not in THINGS:
        at, most = at + 1, most - 1
    if at >= len(tokens) or tokens[at].text not in THINGS or tokens[at].code != "x":
        return False
    noun = tokens[at].text
    verb = noun in _VERBS and (lowered == "may" or (lowered in _NAMED and at + 1 < len(tokens)))  # "june call me back"
    if verb or (lowered == "sat" and noun in _OF_SCORES):
        return False
    if phrase_ends(tokens, at + 1, language) or tokens[at + 1].code == "Y":
        return True
    behind = tokens[at + 1]
    return behind.code == "x" and behind.text not in _GENERAL and phrase_ends(tokens, at + 2, language)


def _follows(match: Match, lowered: str) -> bool:
    """Whether a thing is before the time: "rent july", "brunch sat"; a person may be called."""
    front = match.tokens[match.first - 1] if match.first else None
    if front is None or front.code != "x" or not phrase_ends(match.tokens, match.last + 1, match.context.language):
        return False
    following = match.next()
    if lowered in NAMES_OR_WORDS and following is not None and following.code != ".":
        return following.text in _ASKING and front.text in THINGS  # "brunch sun where", unlike "the report may have"
    return front.text in (_RECORDS if lowered in _NAMED else THINGS)


def has_a_year(match: Match) -> bool:
    """Whether a year is of a thing beside it: "2022 budget", "taxes 2023", "photos paris 2018"."""
    tokens, language = match.tokens, match.context.language
    if language != "en" or abs(match.number("Y") - match.context.now.year) > _NEAR_YEARS:
        return False
    front = [token.text for token in tokens[max(0, match.first - 2) : match.first] if token.code == "x"]
    end = match.last + 1
    placed = bool(front) and front[-1] in _SEVERAL_YEARS and end < len(tokens) and tokens[end].code == "x"
    if front and (phrase_ends(tokens, end, language) or (placed and phrase_ends(tokens, end + 1, language))):
        several = front[-1] in _RECORDS | _EVENTS and front[-1].endswith("s") and not front[-1].endswith("ss")
        if several or front[-1] in _SEVERAL_YEARS or front[0] in _PLACED:
            return True
    return match.first == 0 and _leads(match, "", 0)


def has_years(noun: str) -> bool:
    """Whether the plural of a thing is not counted: "2023 taxes", unlike "2000 orders"."""
    return noun in _UNCOUNTED


_NEAR_YEARS = 20
_SHORT = 4  # letters; no title and no name has these forms ("oct", "thu")
_OF_VERSIONS = listed("to v version section chapter figure table page release")  # "update to 12.8."


def is_day_of_thing(match: Match) -> bool:
    """Whether "today" is a day: "yesterday standup notes", "what did I eat today"; not "today widget"."""
    tokens, at = match.tokens, match.last + 1
    at += at < len(tokens) and tokens[at].start == tokens[match.last].start  # "tonight" is two tokens
    if at >= len(tokens) or tokens[at].code not in "xZ" or phrase_ends(tokens, at, match.context.language):
        return True
    if tokens[at].text.endswith("ed"):
        return True  # "yesterday talked to whom"
    things = THINGS | _OF_A_DAY
    return any(token.text.lower() in things for token in tokens[at : at + 3])


def is_beside_thing(text: str, start: int, end: int) -> bool:
    """Whether a thing is beside the figures at a position: "readings 2/27", "19/8 call", "call with anna 11.9."."""
    before = text[max(0, start - 40) : start].split()[-3:]
    behind = text[end : end + 20].split()[:1]
    numbered = bool(before) and before[-1].lower() in _OF_VERSIONS
    return not numbered and any(word.lower() in THINGS for word in (*before, *behind))


def names_thing(token: Token) -> bool:
    """Whether a word is a thing that has a date."""
    return token.text.lower() in THINGS
