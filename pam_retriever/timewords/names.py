"""Months, seasons and holidays that are no times: names ("a gift for June") and kinds of things ("winter boots")."""

from __future__ import annotations

from pam_retriever.timewords.lexicon import MOVED, NAMES, Token, listed
from pam_retriever.timewords.match import Match
from pam_retriever.timewords.things import names_thing

NOUNS_IN_S = listed("was is has does this as us its his plus thus yes whereas")
_GIVEN = listed(  # "a cake for June", unlike "the budget for June"
    "buy bought get got give gave make made bake baked cook cooked knit gift gifts present presents cake card flowers"
    " dress surprise note message letter something anything everything it this that care look looking looked wait"
    " waiting waited vote ask asked work works worked cover covered sorry happy love do did done here number address"
)
_TIMES = "MWNOYDSHURLXPQ"
_GIVEN_NAMES = listed("abril julio avril mai")
_RELATIVES = listed(  # before "of" and a name
    "husband wife son daughter mother father sister brother mom dad boss friend boyfriend girlfriend marido esposa"
    " esposo mujer hijo hija hermano hermana madre padre mamá papá jefe jefa amigo amiga novio novia prima primo tía"
    " apellido teléfono correo casa perro gato mari femme fils fille sœur frère mère père copain copine amie patron"
    " cousine prénom téléphone chien chat tante oncle ehemann frau mann sohn tochter mutter vater schwester bruder"
    " freund freundin chef chefin"
)
_FAMILY = listed("sister sisters brother brothers twins siblings family")
_ARTICLES = listed("ein eine einen einem einer")
_REQUESTS = listed("recipe recipes ideas tips recette recettes idées receta recetas rezept rezepte ideen")
_FREE = listed("vacances vacaciones saison temporada")


def is_person(match: Match, named: Token) -> bool:
    """Whether a month is somebody's name: "a gift for June", "write to May", "about Jan from accounting"."""
    front = match.tokens[max(0, match.first - 2) : match.first]
    following, language = match.next(), match.context.language
    if not front:
        return False
    if is_named(match):
        return True
    following_names = named.text.lower() in NAMES or named.text.lower() in _GIVEN_NAMES
    of = front[-1].code == "o" or front[-1].text.lower() == "von"
    if of and named.text[0].isupper() and following_names and front[0].text.lower() in _RELATIVES:
        return following is None or following.code not in "YLTU"  # "el marido de Abril"
    if front[-1].text == "to" and named.text in ("dec", "oct", "sep", "mar"):
        return front[0].code not in _TIMES and front[0].text.lower() not in MOVED  # "hex to dec"
    verb = named.text.lower() == "march" and front[-1].text.lower() == "to"  # "gets to march"
    if verb and (following is None or following.code not in "YNO,.&") and front[0].code not in _TIMES:
        return front[0].text.lower() not in MOVED
    if named.text.lower() not in NAMES or language not in ("en", "de"):
        return False
    if language == "de":
        return following is not None and following.text == "aus"  # "Jan aus der Buchhaltung"
    code, before = front[-1].code, front[0]
    behind = match.next(2)
    from_where = following is not None and following.code in "fhi" and (behind is None or behind.code != "Y")
    if code == "r":
        given = before.text.lower() in _GIVEN and not match.context.future
        return given or (from_where and not names_thing(before))  # "mail for jan from payroll"
    if code == "u" and front[-1].text.lower() == "to":  # unlike "April to June", "postponed to June"
        return before.code not in _TIMES and before.text.lower() not in MOVED
    return code == "g" and from_where


def is_name(match: Match, named: Token, beside: str) -> bool:
    """Whether a month is a name: "the March sisters", "daughter of June Carter", "Julio Iglesias", "einen Mai Tai"."""
    following, language = match.next(), match.context.language
    if following is None or not named.text[0].isupper():
        return False
    if following.text.lower() in _FAMILY:
        return language == "en"
    if language in ("fr", "es"):  # months have no capital there, and names have
        behind = match.next(2)
        return following.code == "Z" or (following.code in "&o" and behind is not None and behind.code in "xZ")
    before = match.tokens[match.first - 1] if match.first else None
    if following.code not in "Zx" or not following.text[0].isupper() or before is None:
        return False
    if language == "de":
        return before.text.lower() in _ARTICLES
    return beside[0] in "orq" and named.text.lower() in NAMES


_CODED = listed("value constant index abbreviation regex emoji symbol icon entry")  # before "for Friday"
_CALLED = listed("is are was were be been variable function class project band")
_PERSONAL = listed("surname child children phone wife husband mother father vet age birthday name pronouns")


def is_named(match: Match) -> bool:
    """Whether a weekday or a month is a name: "a dog named Friday", "enum value for monday", "wednesday's surname"."""
    before, following = match.tokens[max(0, match.first - 2) : match.first], match.next()
    front = [token.text.lower() for token in before]
    if match.context.language != "en":
        return False
    if front[-1:] == ["called"] and match.has("M"):
        return True  # "a dog called march"
    first = match.tokens[match.first]
    genitive = first.code == "n" and match.has("W") and first.start == match.token("W").start
    if genitive and following is not None and following.text in _PERSONAL:
        return True
    called = front[-1:] == ["called"] and front[-2:-1] and front[-2] in _CALLED
    return front[-1:] == ["named"] or bool(called) or (front[-1:] == ["for"] and not _CODED.isdisjoint(front[-2:-1]))


def is_attribute(match: Match) -> bool:
    """Whether a season or a holiday is of a thing: "salade d'été", "a recipe for Christmas cookies", "winter boots"."""
    front, following = match.tokens[max(0, match.first - 3) : match.first], match.next()
    if match.has("t") or len(front) < 2 or front[-1].code not in "orgp":
        return False
    words = [token.text.lower() for token in front]
    noun = following.text.lower() if following is not None and following.code == "x" else ""
    if match.context.language in ("fr", "es"):
        free = front[-2].code == "U" or words[-2] in _FREE
        return words[-1] in ("de", "d'", "d’") and not free and (match.has("S") or not _REQUESTS.isdisjoint(words))
    things = match.has("S") and noun.endswith("s") and noun not in NOUNS_IN_S
    return bool(noun) and (things or words[-2] in _REQUESTS)
