"""Function words and question words, which say nothing about what a text is about."""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain

from pam_retriever.mentions.folding import fold

STOP_WORDS = """
a about after an and are as at be been before being both but by can could did do does during for from had has
have he her his how i if in into is it its me my no not of on or our s she should so such t than that the
their them then there these they this those to us was we were what when where which who whom why will with
would you your
"""
# without accents, and only words that no question is about
OTHERS = {
    "de": """
aber alle als also am an auf aus bei beim bin bis bist da damit dann das dass dein deine dem den denn der des die dies
diese diesem diesen dieser dieses doch du durch ein eine einem einen einer eines er es euch euer fur gab geht gerade
gibt habe haben habt hast hat hatte hatten ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in ins ist ja kann kannst
konnte konnten machen man mein meine meinem meinen meiner mich mir mit muss nach nicht noch nun nur ob oder ohne sein
seine seinem seinen seiner seit sich sie sind so soll sollte uber um und uns unser unsere unserem unseren unter vom von
vor wann war waren warum was wegen weil welche welchem welchen welcher welches wem wen wenn wer werde werden weshalb wie
wieso will wir wird wo wobei wofur woher wohin womit woran wurde wurden zu zum zur zwischen
""",
    "fr": """
a ai as au aux avait avant avec avez avions avoir avons c ce cela celle celles celui ces cet cette ceux chez comme
comment d dans de des donc du elle elles en entre es est et etaient etait ete etes etre eu eux fait il ils j je l la le
les leur leurs lui m ma mais me meme mes moi mon n ne nos notre nous on ont ou ou par pas pendant peut plus pour
pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se sera ses si sois son sont sous suis sur t ta te
tes toi ton tu un une vos votre vous y
""",
    "es": """
a al algo ante antes asi aun como con cual cuales cuando cuanta cuantas cuanto cuantos de del desde donde dos durante e
el ella ellas ellos en entre era eran es esa esas ese eso esos esta estaba estaban estamos estan estas este esto estos
estuvo fue fueron ha habia han hasta hay he hemos hizo la las le les lo los mas me mi mis mucho muy nada ni no nos
nosotros nuestra nuestras nuestro nuestros o os para pero por porque pues que quien quienes se segun ser si sin sobre
son su sus tambien te ti tiene tienen todo tu tus un una unas uno unos usted ya yo
""",
    "it": """
a abbia abbiamo ad agli ai al alla alle allo anche avere aveva avevamo c che chi ci come con cosa cui da dagli dai dal
dalla dalle de degli dei del della delle dello di dopo dove e ed era erano essere fa fra gli ha hai hanno ho i il in io
l la le lei lo loro lui ma mentre mi mia mie miei mio ne nei nel nella nelle nello noi non nostra nostre nostri nostro o
ogni per perche piu prima qual quale quali quando quanto quella quelle quelli quello questa queste questi questo se sei
si sia siamo siete sono sta stata stati stato su sua sue sugli sui sul sulla sulle suo suoi tra tu tua tue tuo tuoi un
una uno vi voi
""",
    "nl": """
aan al als bij dan dat de den der deze die dit doe doen door dus een en er ging had hadden heb hebben hebt heeft hem het
hier hij hoe hun ik in is ja je jij jou jullie kan kon kunnen maar me mee men met mij mijn moet na naar niet nog nu of
om omdat ons onze ook op over te tegen toen tot tussen u uit uw van veel voor waar waarom wanneer waren was wat we welke
werd wie wij wil worden zal ze zich zij zijn zo zou
""",
    "pt": """
a ao aos as ate com como da das de dela dele deles depois do dos e ela elas ele eles em entre era eram essa esse esta
estamos estao estar estas estava estavam este estes eu fez foi fomos foram ha isso isto ja la lhe mais mas me mesmo meu
meus minha minhas muito na nao nas nem no nos nossa nossas nosso nossos num numa o onde os ou para pela pelas pelo pelos
por porque quais qual quando quanto que quem se sem ser seu seus si so sobre sua suas tambem te tem tinha tu um uma voce
""",
}
# of scripts without spaces; longer ones are found first, and no shorter words that are often parts of others
UNSPACED = """
什么 什麼 甚麼 怎么 怎麼 怎样 怎樣 如何 哪里 哪裡 哪儿 哪兒 哪个 哪個 哪些
为什么 為什麼 为何 為何 多少 是不是 有没有 有沒有 请问 請問 吗 嗎 呢 谁 誰
何ですか なんですか ですか ますか ましたか でしたか ませんか でしょうか だろうか
なぜ どうして どうやって どのように どんな どの どこ どれ いつ だれ
何が 何を 何の 何と 教えてください ください とは
무엇 무슨 누구 언제 어디 어떻게 어떤 얼마나 입니까 습니까 인가요
"""
MORE = 2  # stop words that a question has more in another language than in English, to be in that language

_STOP_WORDS = {language: frozenset(words.split()) for language, words in {"en": STOP_WORDS, **OTHERS}.items()}
_LANGUAGES: dict[str, list[str]] = {}  # the languages of each stop word
for _language, _words in _STOP_WORDS.items():
    for _word in _words:
        _LANGUAGES.setdefault(_word, []).append(_language)


_UNSPACED = re.compile("|".join(sorted(UNSPACED.split(), key=len, reverse=True)))


def without_question_words(text: str) -> str:
    """Returns a Chinese, Japanese or Korean question without words that only make it one; itself if nothing is left."""
    left = _UNSPACED.sub(" ", text)
    return left if any(character.isalnum() for character in left) else text


def content_words(words: list[str]) -> list[str]:
    """Returns the words (in small letters) of a question that are not stop words; all of them if there are no others.

    A stop word of one language is what a question is about in another ("war", "son"). So only the stop words of one
    language count, the one that has most of them: it is English unless another has ``MORE``.
    """
    plain = [word if word.isascii() else fold(word) for word in words]
    counts = Counter(chain.from_iterable(_LANGUAGES[word] for word in _LANGUAGES.keys() & set(plain)))
    if not counts:
        return words
    most = max(counts.values())
    languages = ["en"] if most < counts["en"] + MORE else [one for one, count in counts.items() if count == most]
    stop = _STOP_WORDS[languages[0]].union(*(_STOP_WORDS[one] for one in languages[1:]))
    left = [word for word, folded in zip(words, plain, strict=True) if folded not in stop]
    return left or words
