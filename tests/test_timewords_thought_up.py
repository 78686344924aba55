"""Forms of times that were thought up after list 10 was mended, most of which the reader did not read."""

from __future__ import annotations

from datetime import datetime

import pytest

from pam_retriever.timewords.reader import read_question, read_text

WEDNESDAY = datetime(2024, 5, 15, 15)

FORMS = {
    "the age of a thing": [
        ("what files are older than 30 days", ["until 2024-04-14"]),
        ("show me notes not older than a week", ["2024-05-08 to 2024-05-15"]),
        ("Welche Dateien sind älter als zwei Wochen?", ["until 2024-04-30"]),
    ],
    "abbreviations and short spellings": [
        ("how many cases did we close MTD", ["2024-05-01 to 2024-05-15"]),
        ("show revenue QTD", ["2024-04-01 to 2024-05-15"]),
        ("what was Ann's weight 3 mos ago", ["2024-02-01 to 2024-02-29"]),
        ("where are we meeting tmrw", ["2024-05-16"]),
        ("what did I say a coupla days ago", ["2024-05-13"]),
        ("what'd you do last wknd", ["2024-05-11 to 2024-05-12"]),
    ],
    "midnight": [
        ("who called since midnight", ["2024-05-15"]),
        ("who left the house after midnight on Saturday", ["2024-05-11"]),
    ],
    "days beside a day, as a whole": [
        ("whom did I meet in the three days before Good Friday", ["2024-03-26 to 2024-03-28"]),
        ("whom did I meet three days before Good Friday", ["2024-03-26"]),
        ("¿Qué hice la semana anterior a Navidad?", ["2023-12-18 to 2023-12-24"]),
        ("Les messages d'avant le 10 mars", ["until 2024-03-09"]),
        ("Was geschah bis einschließlich 10. März?", ["until 2024-03-10"]),
        ("how did I feel after the holidays", ["from 2024-01-02"]),
        ("what did we sing during Holy Week", ["2024-03-24 to 2024-03-31"]),
    ],
    "a clock before any day": [
        ("the mail I sent at 11:58 PM on New Year's Eve", ["2023-12-31 23:58 to 2023-12-31 23:59"]),
    ],
    "a year that is so many years ago": [
        ("Wo waren wir im Sommer vor zwei Jahren?", ["2022-06-01 to 2022-08-31"]),
        ("where did we sail in the summer two years ago", ["2022-06-01 to 2022-08-31"]),
        ("whom did I meet in March a year ago", ["2023-03-01 to 2023-03-31"]),
        ("¿Dónde estuvimos en marzo hace dos años?", ["2022-03-01 to 2022-03-31"]),
    ],
    "a range with the year of its start": [
        ("2023年3月到5月的账单", ["2023-03-01 to 2023-05-31"]),
        ("what did we pay from December 2022 to March", ["2022-12-01 to 2023-03-31"]),
        ("what did Tom say between last Monday and Thursday", ["2024-05-06 to 2024-05-09"]),
    ],
    "this winter, after it": [
        ("have I been sick at all this winter", ["2023-12-01 to 2024-02-29"]),
        ("what will we read this winter", ["2024-12-01 to 2025-02-28"]),
    ],
    "a weekday and its date": [
        ("who comes to the match this coming Saturday, May 18th, at 1pm?", ["2024-05-18 13:00 to 2024-05-18 14:00"]),
        ("who came on Thursday, May 18", ["2023-05-18"]),
    ],
    "a time of a weekday that has not come yet": [
        ("whom did I meet on Wednesday evening", ["2024-05-08 18:00 to 2024-05-09 00:00"]),
    ],
    "counted units before their ordinal": [
        ("les trois premiers mois de 2023", ["2023-01-01 to 2023-03-31"]),
        ("los primeros tres meses de 2023", ["2023-01-01 to 2023-03-31"]),
    ],
    "what comes, by the question word": [
        ("when is our next meeting after June 10", ["from 2024-06-11"]),
    ],
    "a noun before a relative time": [
        ("which day last week did it rain", ["2024-05-06 to 2024-05-12"]),
    ],
    "French without a word that only French has": [
        ("mes notes d'il y a trois jours", ["2024-05-12"]),
    ],
    "no times": [
        ("what does Ann do on weekends", []),
        ("what happened at the last minute", []),
        ("Wer singt Der letzte Sommer?", []),
        ("have we seen The Summer together", []),
        ("周末愉快怎么说", []),
    ],
    "future questions": [
        ("what am I doing on Saturday", ["2024-05-18"]),
        ("what's on my calendar for Thursday", ["2024-05-16"]),
        ("do I have anything on Friday afternoon", ["2024-05-17 12:00 to 2024-05-17 18:00"]),
        ("when does Ann arrive on Sunday", ["2024-05-19"]),
        ("which meetings do I have on Monday", ["2024-05-20"]),
        ("is there a match on Saturday", ["2024-05-18"]),
        ("am I free on Sunday", ["2024-05-19"]),
        ("who is coming on Sunday", ["2024-05-19"]),
        ("remind me on Friday to call Ann", ["2024-05-17"]),
        ("Was steht am Freitag an?", ["2024-05-17"]),
        ("Habe ich am Freitag etwas vor?", ["2024-05-17"]),
        ("Qu'est-ce que je fais samedi ?", ["2024-05-18"]),
        ("¿Qué tengo el viernes?", ["2024-05-17"]),
        ("周五我有什么安排", ["2024-05-17"]),
    ],
}
CASES = [(reason, text, meanings) for reason, forms in FORMS.items() for text, meanings in forms]


@pytest.mark.parametrize(("reason", "text", "meanings"), CASES, ids=[text for _, text, _ in CASES])
def test_a_form_is_read(reason, text, meanings):
    assert [period.meaning for period in read_question(text, WEDNESDAY)] == meanings, reason


SAID = {
    "texts: what was": [
        ("Meeting notes, 3 May 2024: Tom will send the draft", ["2024-05-03"]),
    ],
    "texts: what comes": [
        ("Dentist on Friday at 3", ["2024-05-17 15:00 to 2024-05-17 16:00"]),
        ("Deadline: Friday 5pm", ["2024-05-17 17:00 to 2024-05-17 18:00"]),
        ("Booked flights for 12 August!", ["2024-08-12"]),
        ("I need the report by Friday", ["until 2024-05-17"]),
        ("Are you free on Sunday?", ["2024-05-19"]),
        ("I'd like a table for Friday evening", ["2024-05-17 18:00 to 2024-05-18 00:00"]),
        ("My next appointment is June 12", ["2024-06-12"]),
        ("The meeting got moved to Friday", ["2024-05-17"]),
        ("The meeting was postponed to June", ["2024-06-01 to 2024-06-30"]),
        ("Mum's surgery is scheduled for Monday", ["2024-05-20"]),
        ("The deadline is May 31", ["2024-05-31"]),
    ],
    "texts in other languages": [
        ("Am Freitag habe ich Zahnarzt", ["2024-05-17"]),
        ("Wir sehen uns am Montag", ["2024-05-20"]),
        ("Der Termin ist am 3. Juni", ["2024-06-03"]),
        ("Kommst du am Samstag?", ["2024-05-18"]),
        ("Lundi j'ai rendez-vous chez le dentiste", ["2024-05-20"]),
        ("On se voit samedi ?", ["2024-05-18"]),
        ("Le 3 juin c'est l'anniversaire de Paul", ["2024-06-03"]),
        ("La réunion est vendredi à 10h", ["2024-05-17 10:00 to 2024-05-17 11:00"]),
        ("J'ai vu Paul samedi", ["2024-05-11"]),
        ("El lunes tengo dentista", ["2024-05-20"]),
        ("¿Quedamos el sábado?", ["2024-05-18"]),
        ("El sábado vi a Paco", ["2024-05-11"]),
        ("La boda es el 3 de junio", ["2024-06-03"]),
        ("婚礼在6月3号", ["2024-06-03"]),
    ],
    "past texts that must stay past": [
        ("Am Samstag waren wir am See", ["2024-05-11"]),
        ("Am Samstag hat es geregnet", ["2024-05-11"]),
        ("Ich bin am Montag nach Köln gefahren", ["2024-05-13"]),
        ("Wir haben uns am Freitag getroffen", ["2024-05-10"]),
        ("Am Freitag rief Oma an", ["2024-05-10"]),
        ("Am Montag verlor ich meinen Schlüssel", ["2024-05-13"]),
        ("Wir fuhren im Juli nach Italien", ["2023-07-01 to 2023-07-31"]),
        ("Im März bekam ich die Zusage", ["2024-03-01 to 2024-03-31"]),
        ("Am 3. Mai ist Opa gestorben", ["2024-05-03"]),
        ("Hier ist das Foto vom Samstag", ["2024-05-11"]),
        ("Mir geht es seit Montag besser", ["2024-05-13 to 2024-05-15"]),
        ("Am 10. Juni 2021 heirateten wir", ["2021-06-10"]),
        ("Samedi on est allés à la mer", ["2024-05-11"]),
        ("On a mangé chez Luc vendredi", ["2024-05-10"]),
        ("Nous étions à Nice en juillet", ["2023-07-01 to 2023-07-31"]),
        ("Je suis tombé malade lundi", ["2024-05-13"]),
        ("Il pleuvait samedi", ["2024-05-11"]),
        ("Mon père est mort le 3 mars", ["2024-03-03"]),
        ("C'est une photo de samedi", ["2024-05-11"]),
        ("Vendredi soir, super concert !", ["2024-05-10 18:00 to 2024-05-11 00:00"]),
        ("Depuis lundi je dors mal", ["2024-05-13 to 2024-05-15"]),
        ("Elle a accouché le 12 juin", ["2023-06-12"]),
        ("El sábado fuimos al cine", ["2024-05-11"]),
        ("El viernes cené con Ana", ["2024-05-10"]),
        ("Estuve enfermo el lunes", ["2024-05-13"]),
        ("El 3 de marzo murió mi abuelo", ["2024-03-03"]),
        ("El lunes me llamó el jefe", ["2024-05-13"]),
        ("Llovía el sábado", ["2024-05-11"]),
        ("En julio viajamos a Roma", ["2023-07-01 to 2023-07-31"]),
        ("Mi hijo nació el 12 de junio", ["2023-06-12"]),
        ("周六我们去了海边", ["2024-05-11"]),
        ("我3月3号搬的家", ["2024-03-03"]),
        ("我儿子6月12号出生", ["2023-06-12"]),
        ("Great party on Saturday", ["2024-05-11"]),
        ("On Saturday we were at the lake", ["2024-05-11"]),
        ("I left Berlin in July", ["2023-07-01 to 2023-07-31"]),
        ("Grandpa died on June 3", ["2023-06-03"]),
        ("The show in October was sold out", ["2023-10-01 to 2023-10-31"]),
        ("I think about Saturday a lot", ["2024-05-11"]),
        ("You should have seen us on Saturday", ["2024-05-11"]),
        ("This is us on Saturday", ["2024-05-11"]),
        ("Here's a photo from October", ["2023-10-01 to 2023-10-31"]),
        ("I've been sick since Monday", ["2024-05-13 to 2024-05-15"]),
        ("Since Monday the printer is broken", ["2024-05-13 to 2024-05-15"]),
        ("Ann and I broke up in October", ["2023-10-01 to 2023-10-31"]),
        ("We got married in June", ["2023-06-01 to 2023-06-30"]),
        ("Ran 10 km on Sunday", ["2024-05-12"]),
        ("Lunch with Tom on Monday was great", ["2024-05-13"]),
        ("I remember that Sunday well", []),
        ("She says she saw him on Sunday", ["2024-05-12"]),
        ("Are you still angry about Sunday?", ["2024-05-12"]),
        ("Did you see the game on Sunday?", ["2024-05-12"]),
        ("How was your date on Friday?", ["2024-05-10"]),
        ("What did you do on Saturday?", ["2024-05-11"]),
        ("Where were you on Monday?", ["2024-05-13"]),
        ("User needs the file that Ann sent on Monday", ["2024-05-13"]),
        ("The bug is in the build from Monday", ["2024-05-13"]),
        ("Customer is angry about the delay on Monday", ["2024-05-13"]),
        ("The invoice is from October", ["2023-10-01 to 2023-10-31"]),
        ("Tom is back since Monday", ["2024-05-13 to 2024-05-15"]),
        ("I want to thank you for Saturday", ["2024-05-11"]),
        ("I can't find the file from Monday", ["2024-05-13"]),
        ("Was hast du am Samstag gemacht?", ["2024-05-11"]),
        ("Qu'as-tu fait samedi ?", ["2024-05-11"]),
        ("¿Qué hiciste el sábado?", ["2024-05-11"]),
        ("The kids love the swing we built in October", ["2023-10-01 to 2023-10-31"]),
    ],
}
TEXTS = [(reason, text, meanings) for reason, forms in SAID.items() for text, meanings in forms]


@pytest.mark.parametrize(("reason", "text", "meanings"), TEXTS, ids=[text for _, text, _ in TEXTS])
def test_a_text_is_read(reason, text, meanings):
    assert [period.meaning for period in read_text(text, WEDNESDAY)] == meanings, reason
