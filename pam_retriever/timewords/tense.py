"""Forms of a sentence that tell its tense, by language: each is an example, and the pattern that finds it.

``ahead`` asks these tables. A form belongs to a table by what it tells, so a new one is a line here with its example.
"""

from __future__ import annotations

import re
import sys


def one_of(words: str, front: str = "", ending: str = "") -> str:
    """Returns a pattern of one of some words, where "_" is a space; with a front and an ending."""
    return rf"\b{front}(?:{'|'.join(word.replace('_', ' ') for word in words.split())}){ending}\b"


class Forms:
    """Forms of a tense by language, each an example and its pattern; compiled when a text needs them."""

    def __init__(self, **forms: tuple[tuple[str, str], ...]) -> None:
        self.forms = forms
        self._patterns: dict[str, re.Pattern[str]] = {}

    def search(self, text: str, language: str, start: int = 0, end: int = sys.maxsize) -> re.Match[str] | None:
        """Returns the first form in a text; upper and lower case are the same."""
        found = self._patterns.get(language)
        if found is None:
            patterns = [pattern for _, pattern in self.forms.get(language, ())]
            found = self._patterns[language] = re.compile("|".join(patterns) or "(?!)", re.IGNORECASE)
        return found.search(text, start, end)


# it is about what comes
FUTURE = Forms(
    en=(
        (
            "We will go.",
            one_of(
                "will won't shall gonna going_to plan plans planned planning upcoming looking_forward can't_wait due"
                " about_to"
            ),
        ),
        ("We'll go.", r"'ll\b"),
        ("When is the exam?", r"\bwhen(?:['’]s| is| are| does| do)\b"),
        (
            "I need to call.",
            r"\b(?:needs?|has|have) to\b"
            r"(?! (?:know|remember|recall|(?:find|check|look|see)(?: out| up)? (?:wh\w+|how|if))\b)",
        ),
    ),
    de=(("Er wird kommen.", one_of("wird werden werde wirst muss müssen planen plane geplant vorhaben")),),
    fr=(
        (
            "Il va venir.",
            one_of("allons vais va vont prévu prévue prévus prévues prévoyons sera aura fera ira viendra"),
        ),
        ("Je reviendrai.", r"\b\w{2,}(?:rai|ront|[ed]r(?:as|ons|ez))\b"),
    ),
    es=(
        ("Vamos a salir.", one_of("vamos_a voy_a va_a van_a planeamos planeado")),
        ("Llegará tarde.", r"\b(?:(?-i:[a-zíóú])|(?<!\w )\w)\w*[aeid]r(?:ás|á|emos|án)\b"),
        ("Lo haré.", one_of("haré iré seré estaré tendré vendré podré saldré llegaré volveré")),
    ),
    zh=(
        ("将要开始", "将(?!军)"),
        ("他会来", "(?<![开聚晚约社机一年大宴协学的个么些场])会(?![议员计面谈话所场长])"),
        ("要去北京", "(?<![重主需])要(?![求点])"),
        ("打算去", "打算|安排|有空|计划(?=[在去做要明下])"),
    ),
)
# before "plan" or "going to": it is about a plan of that time
WAS = Forms(
    en=(("What did we plan?", one_of("did was were had")),),
    de=(("Was war geplant?", one_of("war waren hatte hatten wurde wurden")),),
    fr=(("Ce qui était prévu", one_of("était étaient avait")),),
)
# a question about the past: "at 3 pm" in it is a time of today or yesterday
PERFECT = Forms(
    en=(
        ("Who rang?", one_of("did was were had said told came went wrote sent got made saw met rang")),
        ("Who called?", r"\b\w{2,}ed\b"),
    ),
    de=(("Wer hat angerufen?", one_of("habe hast hat haben hatte hatten war waren wurde wurden")),),
    fr=(
        ("Qu'avons-nous fait ?", one_of("ai as avons avez ont était étaient étais qui_a")),
        ("Qu'a-t-il dit ?", r"\ba-t-|\bs'est\b"),
    ),
    es=(("¿Quién vino?", r"\b(?:dije|dijo|hice|hizo|hicimos|fue|fui|vino|tuve|estuve|\w{2,}[éó])(?!\w)"),),
    zh=(("他说了什么", "了"),),
)
# it tells of the past, or of a habit
PAST = Forms(
    en=(
        (
            "They went home.",
            one_of(
                "since every each annual annually usually always often lately these_days so_far ago thank thanks sorry"
                " was were had did been went came made saw met said told took found bought gave left felt began ran won"
                " lost wrote sent kept knew grew died used broke built chose drove rode rose woke spoke stole froze"
                " forgot hid bit ate drank sang swam rang sank hung stuck dug threw blew drew flew shook stood"
                " understood held heard sold caught taught thought brought fought slept dealt meant lent spent shot"
                " wore tore fell paid laid led fed became"
            ),
        ),
        ("He got a dog.", r"\b(?<!['’]ve )got\b"),
        (
            "She called.",
            r"\b(?!excited|thrilled|need|indeed|speed|tired|scared|interested|married|invited|supposed|scheduled"
            r"|closed)[a-z]{2,}[^\We]ed\b",
        ),
    ),
    de=(
        ("seit Montag", one_of("seit jeden jede immer oft foto fotos bild bilder war waren warst hatte hatten")),
        ("vor dem Essen", r"\bvor(?= \w)"),
        (
            "Er rief an.",
            one_of(
                "gab kam ging sah fuhr lor fand schrieb las traf lief blieb starb nahm ließ hielt rief schlief stand"
                " brach flog zog sang half sprach gann fiel schlug trug trank wurde aß",
                r"(?!(?:auf|aus|an|ab|ein)gaben)\w*",
                "(?:en|n|st)?",
            ),
        ),
        (
            "Sie lag dort.",
            one_of("tat lag bat hing stieg lud warf wuchs bot stieß schloss", ending="(?:en|st)?"),
        ),
        (
            "Wir kauften Brot.",
            r"\b(?!(?:heirat|arbeit|wart|start|miet|test|halt|reit|biet|tret|mitt|heut|letzt|zweit|dritt|seit|kart|leut"
            r"|könn|möch|hälf)\w)\w{2,}[^s\W]te[nst]?\b",
        ),
        (
            "Er hat gelacht.",
            r"\b(?!gehe?n|gehst|geht|geben|gegen|gestern|genießt|gehört)ge\w{2,}(?:t|en)\b",
        ),
        (
            "Sie ist angekommen.",
            one_of("ab an auf aus ein mit um vor weg zu zurück los", ending=r"ge\w{2,}(?:t|en)"),
        ),
        ("Er hat studiert.", r"\b(?:\w{3,}iert|ver\w{3,}en)\b"),
    ),
    fr=(
        (
            "depuis lundi",
            one_of(
                "depuis chaque tous toujours souvent photo photos étions était étaient étais avions avait avaient avais"
            ),
        ),
        ("Il mangeait.", r"\b(?:\w{3,}aient|(?!fait\b|plait\b|parfait\b)\w{2,}ait)\b"),
        (
            "Elle est partie.",
            r"\b(?:ai|as|a|avons|avez|ont|suis|es|est|sommes|êtes|sont)(?:-t)?(?:-\w+)?(?: pas| bien| déjà| tous)?"
            r" (?!\w+di\b|ici\b|aussi\b|qu(?:[ei]|elque|and|oi)?\b|ouvert|fermé)\w*"
            r"(?:é|ée|és|ées|i|ie|is|it|u|ue|us|ert|eint|orte?)\b",
        ),
    ),
    es=(
        (
            "Fue ayer.",
            one_of(
                "desde cada todos siempre foto fotos hace fue fui fuimos fueron era eran había vi vio dio hizo tuvo"
                " tuve estuvo estuve hubo dijo vino puso tenía hacía vivía quería podía sabía"
            ),
        ),
        ("He comido.", r"\b(?:he|has|ha|hemos|han) \w+[tdh]o\b"),
        ("Comieron pan.", r"\b\w{2,}(?:aba|aban|ábamos|ían|íamos|aste|iste|aron|ieron)\b"),
        (
            "Comimos pan.",
            r"\b(?:(?!salimos|venimos|decimos|vivimos)\w{2,}imos|(?!quedamos|vamos|estamos)\w{3,}amos)\b",
        ),
        ("Llegó tarde.", r"\b(?!qué|sé|té|café|bebé|josé)\w{2,}[éó](?!\w)"),
    ),
    zh=(("他来过", "几点.{1,3}的|了|过|曾|当时|以前|出生|时候|每|一直|前|照片"),),
)
# at the end of a sentence with "haben" or "sein": "Was haben wir am Montag besprochen?"
PARTICIPLE = Forms(
    de=(
        (
            "Was haben wir besprochen?",
            one_of("hab habe hast hat haben habt bin bist ist sind seid wurde wurden")
            + r".* (?!morgen|heut|dienst|zeit)(?-i:[a-zäöüß]{4,}(?:t|en))\b\W*$",
        ),
    ),
)
