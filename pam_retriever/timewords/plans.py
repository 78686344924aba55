"""Forms of a sentence in the present tense that tells of a plan: "We're moving on the 20th", "Who comes on Sunday?"."""

from __future__ import annotations

from pam_retriever.timewords.tense import Forms, one_of

# verbs whose present progressive is a plan, unlike "We're missing you"
_PLANS = one_of(
    "moving leaving flying going coming heading driving traveling travelling visiting arriving returning departing"
    " taking having getting starting meeting seeing hosting throwing joining playing performing attending celebrating"
    " giving holding launching opening closing releasing bringing picking staying presenting marrying graduating"
    " retiring finishing ending beginning speaking competing racing switching off_to"
)
_DAYS = "mon|tues|wednes|thurs|fri|satur|sun"
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_CALLS = "dentist|doctor|vet|appointment|interview|exam|deadline|surgery|check-?up"
_MEETINGS = (
    "appointment|meeting|interview|exam|test|flight|party|wedding|game|match|concert|show|deadline|presentation|recital"
    "|surgery|check-?up|race|tickets"
)
# verbs of timetables, and what they move
_VERBS = (
    "leave|depart|arrive|start|begin|open|close|end|run|land|air|premiere|resume|expire|move|return|graduate|retire"
    "|sign"
)
_THINGS = "the|our|my|his|her|their"
_IT_LEAVES = (
    rf"(?<!\bthe )(?<!\bfall )\b(?:(?:{_VERBS}|kick|turn)s|flies|finishes|takes place|goes (?:back|on|up|down)"
    rf"|comes (?:back|home|to)|comes?(?= on\b)|gets (?:{_THINGS}|married|back))"
)
_WE_LEAVE = (
    rf"\b(?:I|we|they|you|[^\W\d]+s|and \w+)(?: (?:all|both|also|then))?"
    rf" (?:{_VERBS}|fly|finish|head|go (?:back|on|to|up|down)|come (?:back|home|to)|get (?:{_THINGS}|married|back))"
)
_WHEN = rf"(?: [\w'’]+){{0,5}}? (?:(?:on|from|in|at|this|next)\b|(?:{_DAYS})day\b)"

# a clause of a text
PLANNED = Forms(
    en=(
        (
            "We're moving on the 20th.",
            rf"(?:\b(?:am|is|are)|['’](?:m|s|re))(?: (?:not|also|all|both|finally|only|just))? {_PLANS}",
        ),
        ("The flight leaves on Monday.", rf"(?:{_IT_LEAVES}|{_WE_LEAVE})\b{_WHEN}"),
        ("The party is on Friday.", rf"\b(?:is|are) (?:(?:on|in|at|{_MONTHS})\b|(?:{_DAYS})day\b)|['’]s on\b"),
        ("The shop is closed.", r"(?:\bis|\bare|['’]s) (?:closed|open|off|away)\b"),
        ("Are you free?", r"\bare you (?:free|around|available|home|busy|in|up|coming|able)\b"),
        ("It needs the key.", r"\bneeds? (?:the|an?|my|our|it|this|that)\b"),
        ("I'd like to go.", r"['’]d like\b|\bwould like\b"),
        ("Dentist on Friday at 3", rf"\b(?:{_CALLS}):? (?:(?:on|at)\b|(?:{_DAYS})day\b)"),
        (
            "Pay the rent on Friday.",
            r"(?:^|(?<=[.!?] ))(?:please )?(?:call(?! with)|come|bring|buy|pick|send|pay|renew|return|submit|meet|book"
            r"|ask|take|order|cancel|email|register|prepare|drop)\b",
        ),
        ("We fly to Rome.", r"\b(?:we|I|they) (?:fly|leave|move|depart|head|start)\b"),
        (
            "Let's meet.",
            r"\blet['’]s\b|\bsee you\b|\bdon['’]t forget\b|\bremember to\b|\bhop(?:e|ing) to\b|\bwants? to\b",
        ),
        ("We should go.", r"\b(?:should|might)\b(?! have|['’])|\b(?:can|could|would) you\b|\bcan['’]t (?:come|make)\b"),
        ("I've got a new exam.", rf"(?:\bha(?:ve|s)|['’]ve got) (?:\w+ ){{0,4}}(?:{_MEETINGS})\b"),
    ),
    de=(
        (
            "Ich komme am Montag.",
            one_of(
                "ich du wir ihr er sie es man ist sind hab fährt fliegt zieht trifft kommt beginnt beginnen startet"
                " endet fängt öffnet schließt heiratet fangen kommen"
            ),
        ),
    ),
    fr=(
        (
            "On part lundi.",
            one_of(
                "je tu on nous vous il ils elle elles est sont a ont commence commencent part partent arrive arrivent"
                " entre entrent reprend ouvre ouvrent expire expirent finit se_marie se_marient"
            ),
        ),
        ("C'est lundi.", r"\b[jc]['’]"),
    ),
    es=(
        (
            "Tengo cita el lunes.",
            one_of(
                "nos_vemos es son hay tengo tiene tienes tenemos tienen toca quedamos puedes podemos viene vienes"
                " vienen vengo salimos salgo viajo viajamos volamos me_mudo nos_mudamos se_casa se_casan"
            ),
        ),
        ("Empiezan el lunes.", r"\b(?:(?:empiez|comienz|termin|cierr|lleg)[oa]n?|(?:abr|vuelv|sal|venc|cumpl)en?)\b"),
    ),
)
# a clause of a question
ASKED = Forms(
    en=(
        (
            "Do I have anything on Friday?",
            r"\b(?:do|have) (?:I|we)(?: have| got)? "
            rf"(?:any ?thing|something|plans|time|(?:\w+ ){{0,3}}(?:{_MEETINGS}))s?\b",
        ),
        ("Which meetings do I have?", rf"\b(?:{_MEETINGS})s? (?:do|have) (?:I|we)\b"),
        ("Is there a new exam?", rf"\bis there (?:\w+ ){{0,3}}(?:{_MEETINGS})\b"),
        ("Am I free?", r"\b(?:am I|are we)\b"),
        ("Which exam of mine is on?", rf"\b(?:{_MEETINGS})\b[^,?]* (?:is|are|isn['’]t) (?:on|at|{_DAYS}|still)"),
        ("What is on my calendar?", r"\bon my (?:calendar|agenda|schedule)\b|\bremind me (?:on|in|at|this|next)\b"),
        (
            "Who is coming?",
            r"\b(?:is|are) (?:\w+ )?(?:coming|arriving|leaving|visiting|happening)\b|['’]s happening\b",
        ),
    ),
    de=(
        ("Was steht am Montag an?", r"\bsteht\b.*\ban\b"),
        ("Was habe ich am Montag vor?", r"\bhab(?:e|en)? (?:ich|wir)\b.*\b(?:vor|termine?|frei|zeit)\b"),
    ),
    fr=(
        ("Qu'est-ce que je fais lundi ?", r"\best-ce qu(?:e (?:je|nous)|e j['’]|['’]on)"),
        ("On fait quoi lundi ?", r"\b(?:fait|fais) quoi\b"),
    ),
    es=(("¿Tengo cita?", one_of("tengo tenemos quedamos viene vienes vienen")),),
)

# what lasts: "until June" in it is the June to come
LASTING = Forms(
    en=(("Is he away until June?", r"\b(?:is|are|am|has|have)\b|['’](?:s|re|m)\b"),),
    de=(("Ist er bis Juni weg?", one_of("ist sind bin hat haben habe bleibt bleiben gilt läuft")),),
    fr=(("Est-il absent jusqu'en juin ?", one_of("est sont suis ai ont reste restent dure")),),
    es=(("¿Está fuera hasta junio?", one_of("es son está están estoy tiene tienen sigue siguen dura")),),
)

# verbs of what a record says, or of a request to look something up, and prepositions
_KNOWN = (
    "know|remember|recall|think|see|find|say|mention|show|contain|keep|store|look(?: like|ing for)|refer|mean|seem"
    "|cover|file|search|ask|want|wonder|spend|cost|earn|compare|read|sound|feel|get back"
    "|for|of|in|from|on|about|at|with"
)
_PEOPLE = "I|we|they|he|she|any(?:one|body)|some(?:one|body)"
# not verbs of a plan, or verbs whose past tense has the same form
_NOT = rf"(?:{_KNOWN})s?|is|was|has|does|are|were|have|did|do|can|put|hit|set|cut|cost|let|hurt|shut|quit"
# a question about what somebody does, or about tasks
PRESENT = Forms(
    en=(
        ("Who cooks on Sunday?", rf"^\W*(?:who|what|which \w+) (?!(?:{_NOT})\b)[a-z]+[^\Ws]s\b"),
        ("Which bands play?", rf"(?:^\W*which \w+s|s (?:that|which|who)) (?!(?:{_NOT})\b)[a-z]+\b"),
        (
            "What do we cook?",
            rf"\b(?:do|does|can|could|should|must) (?:{_PEOPLE}|the \w+|(?!(?:you|the)\b)[^\W\d]+)"
            rf"(?: (?:all|both|still|also|need to))? (?!(?:{_KNOWN})\b)[a-z]+\b",
        ),
        (
            "What we cook on Sunday",
            rf"\b(?:what|where|who|when|which \w+) (?:I|we|they) (?!(?:{_KNOWN}|can)\b)[a-z]+\b",
        ),
        ("Do you cook?", rf"\bdo you (?!(?:{_KNOWN}|have|love|like)\b)"),
        (
            "Are they still cooking?",
            rf"(?:\b(?:am|is|are)|['’](?:m|s|re))(?: (?:still|also|{_PEOPLE}|you|(?:the|our) \w+s))*"
            rf" (?!(?:{_KNOWN}|going|looking|missing|showing|being)\b|the\b|during\b)[a-z]{{2,}}ing\b",
        ),
        (
            "Who leads on Sunday?",
            r"\bwho (?:comes|has|leads|runs|takes|covers|gets|hosts|brings|works)\b|\bwhose turn\b",
        ),
        ("Remind me to call.", r"\bremind me\b|\bleft to\b|\bwhat time is\b"),
        ("Is the shop open?", r"\b(?:is|are) (?:the|my|our) [\w ]{2,20} (?:open|closed|due|free|available)\b"),
        (
            "Is Ann free?",
            r"\b(?:is|are) (?:there (?!an?y? (?:note|photo|mail))|any(?:one|body)|every(?:one|body)|it\b"
            r"|[^\W\d]+ (?:around|free|available|off|on duty|busy|home)\b)",
        ),
        ("Who's next?", r"\b(?:who|what)(?:['’]s| is) (?:on|due|up|next|in|off)\b"),
        (
            "Which tasks are left?",
            r"\b(?:to-?dos?|tasks|agenda|appointments|deadlines|reminders|itinerary|shifts|bookings|birthdays"
            r"|court dates?|due dates?"
            r"|(?:calendar|schedule|plans)(?= (?:on|for|this|in)\b))\b",
        ),
    ),
    de=(
        ("Habt ihr Zeit?", r"\b(?:hat|hast|haben|habt)\b|\b(?:ist|sind)(?: noch)? zu\b"),
        (
            "Wer kocht am Sonntag?",
            r"^\W*(?:wer|wann|wohin|wo|welche\w*(?: \w+)?) (?!(?:kostet|heißt|steht in)\b)\w+t\b",
        ),
        (
            "Was koche ich?",
            r"\b(?:[a-zäöüß]{2,}(?:e|st|t|en)|hab|kann|muss|soll|darf|will|bin|tun) (?:ich|wir|du|ihr|er|man)\b",
        ),
        (
            "Was passiert am Montag?",
            r"\b(?:wer|was) (?:kommt|macht|geht|hat|fährt|fliegt|muss|kann|passiert|liegt an)\b",
        ),
        (
            "Wann öffnet der Laden?",
            r"^\W*ist\b|\b(?:fährt|fliegt|kommt|beginn(?:t|en)|startet|endet|fängt|fangen|öffnet|schließt|findet"
            r"|gibt es)\b",
        ),
        ("Welche Termine?", r"\b(?:fällig|termine?|fristen|aufgaben|agenda|to-?dos?)\b"),
    ),
    fr=(
        ("Où va-t-on ?", r"\b\w{2,}-(?:t-)?(?:je|on|nous|ils?|elles?)\b"),
        ("On mange où ?", r"\b(?:je|on|nous) (?:n['’])?\w+|\bj['’](?!ai \w+[ée]s?\b)\w+"),
        ("Qui vient dimanche ?", r"\bqui (?:vient|viennent|passe|arrive|part|fait|garde|s['’]occupe)\b"),
        (
            "Quand ouvre le musée ?",
            r"\b(?:(?:commence|arrive|part|ouvre|ferme|reste|tombe)(?:nt|ent)?|vient|finit|reprend|a lieu|y a-t-il)\b",
        ),
        ("Le musée est ouvert ?", r"\best (?:ouverte?|fermée?|libre|là)\b"),
        ("Quels rendez-vous ?", one_of("rendez-vous rdv agenda échéances")),
    ),
    es=(
        ("¿Quién viene el lunes?", r"^\W*(?:a )?qui[ée]n(?:es)? (?!es\b|son\b)\w+[ae]n?\b"),
        (
            "¿Qué hago el lunes?",
            one_of("trabajo estoy ceno quedo tengo hago voy vengo salgo veo debo puedo hay toca vamos"),
        ),
        ("¿Qué comemos el lunes?", r"\b(?:\w+emos|(?:tien|vien|sal|hac|deb|pued|cumpl)e[sn]?)\b"),
        (
            "¿Cuándo empieza?",
            r"\b(?:(?:lleg|empiez|termin|viaj|trabaj|qued|pas|cierr|regres|abr|toc)an?|abren?|vuelven?)\b",
        ),
        ("¿Qué citas tengo?", r"\b(?:citas?|agenda|pendientes|plazos)\b"),
    ),
    zh=(
        ("有什么安排", "有(?:什么|哪些|没有|几个|几场)(?:会|会议|安排|约|活动|课|考试|预约|事|空|计划)"),
        ("去哪", "干嘛|干什么|做什么|去哪|几点|谁来|有空|待办|日程"),
    ),
)
