"""Patterns of a sentence that tells what was, or what comes again: verbs in a past tense, "since", "usually"."""

from __future__ import annotations

_ENGLISH = (
    "since|every|each|annual(?:ly)?|usually|always|often|lately|these days|so far|ago|thanks?|sorry|was|were|had|did"
    "|been|went|came|(?<!['’]ve )got|made|saw|met|said|told|took|found|bought|gave|left|felt|began|ran|won|lost|wrote"
    "|sent|kept|knew|grew|died|used|broke|built|chose|drove|rode|rose|woke|spoke|stole|froze|forgot|hid|bit|ate|drank"
    "|sang|swam|rang|sank|hung|stuck|dug|threw|blew|drew|flew|shook|stood|understood|held|heard|sold|caught"
    "|taught|thought|brought|fought|slept|dealt|meant|lent|spent|shot|wore|tore|fell|paid|laid|led|fed|became"
    "|(?!excited|thrilled|need|indeed|speed|tired|scared|interested|married|invited|supposed|scheduled|closed)"
    r"[a-z]{2,}[^\We]ed"
)
_GERMAN = (
    r"seit|jeden|jede|immer|oft|fotos?|bild(?:er)?|vor(?= \w)|war(?:en|st)?|hatten?"
    r"|(?!(?:auf|aus|an|ab|ein)gaben)\w*(?:gab|kam|ging|sah|fuhr|lor|fand|schrieb|las|traf|lief|blieb|starb|nahm|ließ|hielt|rief|schlief|stand|brach"
    "|flog|zog|sang|half|sprach|gann|fiel|schlug|trug|trank|wurde|aß)(?:en|n|st)?"
    r"|(?:tat|saß|lag|bat|hing|stieg|lud|warf|wuchs|bot|stieß|schloss)(?:en|st)?"
    r"|(?!(?:heirat|arbeit|wart|start|miet|test|halt|reit|biet|tret|mitt|heut|letzt|zweit|dritt|seit|kart|leut|könn|möch|hälf)\w)\w{2,}[^s\W]te[nst]?|(?!gehe?n|gehst|geht|geben|gegen|gestern|genießt|gehört)ge\w{2,}(?:t|en)"
    r"|(?:ab|an|auf|aus|ein|mit|um|vor|weg|zu|zurück|los)ge\w{2,}(?:t|en)|\w{3,}iert|ver\w{3,}en"
)
_FRENCH = (
    "depuis|chaque|tous|toujours|souvent|photos?|étions|était|étaient|étais|avions|avait|avaient|avais"
    r"|\w{3,}aient|(?!fait\b|plait\b|parfait\b)\w{2,}ait"
    r"|(?:ai|as|a|avons|avez|ont|suis|es|est|sommes|êtes|sont)(?:-t)?(?:-\w+)?(?: pas| bien| déjà| tous)?"
    r" (?!\w+di\b|ici\b|aussi\b|qu(?:[ei]|elque|and|oi)?\b|ouvert|fermé)\w*"
    r"(?:é|ée|és|ées|i|ie|is|it|u|ue|us|ert|eint|orte?)"
)
_SPANISH = (
    r"desde|cada|todos|siempre|fotos?|hace|(?:he|has|ha|hemos|han) \w+[tdh]o|fue|fui|fuimos|fueron|era|eran|había|vi"
    r"|vio|dio|hizo|tuvo|tuve|estuvo|estuve|hubo|dijo|vino|puso|(?:ten|hac|viv|quer|pod|sab)ía"
    r"|\w{2,}(?:aba|aban|ábamos|ían|íamos|aste|iste|aron|ieron)|(?!salimos|venimos|decimos|vivimos)\w{2,}imos"
    r"|(?!quedamos|vamos|estamos)\w{3,}amos|(?!qué|sé|té|café|bebé|josé)\w{2,}[éó](?!\w)"
)
PAST_TENSE = {
    "en": rf"\b(?:{_ENGLISH})\b",
    "de": rf"\b(?:{_GERMAN})\b",
    "fr": rf"\b(?:{_FRENCH})\b",
    "es": rf"\b(?:{_SPANISH})\b",
    "zh": "几点.{1,3}的|了|过|曾|当时|以前|出生|时候|每|一直|前|照片",
}
