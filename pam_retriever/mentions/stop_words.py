"""Stop words."""

from __future__ import annotations

# function words and question words
STOP_WORDS = """
a about after an and are as at be been before being both but by can could did do does during for from had has
have he her his how i if in into is it its me my no not of on or our s she should so such t than that the
their them then there these they this those to us was we were what when where which who whom why will with
would you your
"""
