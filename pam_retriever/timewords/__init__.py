"""Times in words: the periods that questions and texts name, and what they say about memories."""

from pam_retriever.timewords.periods import OPEN_END, OPEN_START, Period
from pam_retriever.timewords.reader import MAX_CHARACTERS, MAX_PERIODS, read_question, read_text
from pam_retriever.timewords.scores import TextPeriods, TimePrior, time_scores
from pam_retriever.timewords.when import When, read_when

__all__ = [
    "MAX_CHARACTERS",
    "MAX_PERIODS",
    "OPEN_END",
    "OPEN_START",
    "Period",
    "TextPeriods",
    "TimePrior",
    "When",
    "read_question",
    "read_text",
    "read_when",
    "time_scores",
]
