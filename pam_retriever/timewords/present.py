"""Patterns of a question in the present tense about what somebody does: "What do we have on Sunday?".

Such a question is about what comes, unlike one about what a record says, or a request to look something up.
"""

from __future__ import annotations

_KNOWN = (
    "know|remember|recall|think|see|find|say|mention|show|contain|keep|store|look(?: like|ing for)|refer|mean|seem"
    "|cover|file|search|ask|want|wonder|spend|cost|earn|compare|read|sound|feel|get back"
    "|for|of|in|from|on|about|at|with"
)
_PEOPLE = "I|we|they|he|she|any(?:one|body)|some(?:one|body)"
_TASKS = (
    r"to-?dos?|tasks|agenda|appointments|deadlines|reminders|itinerary|shifts|bookings|birthdays"
    r"|(?:calendar|schedule|plans)(?= (?:on|for|this|in)\b)"
)
# not verbs of a plan, or verbs whose past tense has the same form
_NOT = rf"(?:{_KNOWN})s?|is|was|has|does|are|were|have|did|do|can|put|hit|set|cut|cost|let|hurt|shut|quit"
PRESENT = {
    "en": rf"^\W*(?:who|what|which \w+) (?!(?:{_NOT})\b)[a-z]+[^\Ws]s\b|^\W*which \w+s (?!(?:{_NOT})\b)[a-z]+\b|"
    rf"\b(?:do|does|can|could|should|must) (?:{_PEOPLE}|the \w+|(?!(?:you|the)\b)[^\W\d]+)"
    rf"(?: (?:all|both|still|also|need to))? (?!(?:{_KNOWN})\b)[a-z]+\b"
    rf"|\b(?:what|where|who|when|which \w+) (?:I|we|they) (?!(?:{_KNOWN}|can)\b)[a-z]+\b"
    rf"|\bdo you (?!(?:{_KNOWN}|have|love|like)\b)"
    rf"|(?:\b(?:am|is|are)|['’](?:m|s|re))(?: (?:still|also|{_PEOPLE}|you))*"
    rf" (?!(?:{_KNOWN}|going|looking|missing|showing|being)\b|the\b|during\b)[a-z]{{2,}}ing\b"
    r"|\bwho (?:comes|has|leads|runs|takes|covers|gets|hosts|brings|works)\b|\bwhose turn\b"
    r"|\bremind me\b|\bleft to\b|\bwhat time is\b"
    r"|\b(?:is|are) (?:the|my|our) [\w ]{2,20} (?:open|closed|due|free|available)\b"
    r"|\b(?:is|are) (?:there (?!an?y? (?:note|photo|mail))|any(?:one|body)|every(?:one|body)|it\b"
    r"|[^\W\d]+ (?:around|free|available|off|on duty|busy|home)\b)"
    rf"|\b(?:who|what)(?:['’]s| is) (?:on|due|up|next|in|off)\b|\b(?:{_TASKS})\b",
    "de": r"\b(?:hat|hast|haben|habt)\b|\b(?:ist|sind)(?: noch)? zu\b"
    r"|^\W*(?:wer|wann|wohin|wo|welche\w*(?: \w+)?) (?!(?:kostet|heißt|steht in)\b)\w+t\b|"
    r"\b(?:[a-zäöüß]{2,}(?:e|st|t|en)|hab|kann|muss|soll|darf|will|bin|tun) (?:ich|wir|du|ihr|er|man)\b"
    r"|\b(?:wer|was) (?:kommt|macht|geht|hat|fährt|fliegt|muss|kann|passiert|liegt an)\b"
    r"|^\W*ist\b|\b(?:fährt|fliegt|kommt|beginn(?:t|en)|startet|endet|fängt|fangen|öffnet|schließt|findet|gibt es)\b"
    r"|\b(?:fällig|termine?|fristen|aufgaben|agenda|to-?dos?)\b",
    "fr": r"\b\w{2,}-(?:t-)?(?:je|on|nous|ils?|elles?)\b|\b(?:je|on|nous) (?:n['’])?\w+|\bj['’](?!ai \w+[ée]s?\b)\w+"
    r"|\bqui (?:vient|viennent|passe|arrive|part|fait|garde|s['’]occupe)\b"
    r"|\b(?:(?:commence|arrive|part|ouvre|ferme|reste|tombe)(?:nt|ent)?|vient|finit|reprend|a lieu|y a-t-il)\b"
    r"|\best (?:ouverte?|fermée?|libre|là)\b"
    r"|\b(?:rendez-vous|rdv|agenda|échéances)\b",
    "es": r"^\W*(?:a )?qui[ée]n(?:es)? (?!es\b|son\b)\w+[ae]n?\b|\b(?:trabajo|estoy|ceno|quedo)\b|"
    r"\b(?:tengo|hago|voy|vengo|salgo|veo|debo|puedo|hay|toca|vamos|\w+emos"
    r"|(?:tien|vien|sal|hac|deb|pued|cumpl)e[sn]?"
    r"|(?:lleg|empiez|termin|viaj|trabaj|qued|pas|cierr|regres|abr|toc)an?|abren?|vuelven?)\b"
    r"|\b(?:citas?|agenda|pendientes|plazos)\b",
    "zh": "有(?:什么|哪些|没有|几个|几场)(?:会|会议|安排|约|活动|课|考试|预约|事|空|计划)"
    "|干嘛|干什么|做什么|去哪|几点|谁来|有空|待办|日程",
}
# a past tense that has no form of its own: "Was haben wir am Montag besprochen?"
PERFECT_AT_END = {
    "de": r"\b(?:habe?|hast|hat|haben|habt|bin|bist|ist|sind|seid|wurden?)\b.*"
    r" (?!morgen|heut|dienst|zeit)(?-i:[a-zäöüß]{4,}(?:t|en))\b\W*$",
}
