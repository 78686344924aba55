"""Views of results for people: HTML for notebooks with all texts escaped, and plain text."""

from pam_retriever.display.html import explorer_html
from pam_retriever.display.shown import ShownHits, ShownImagination, ShownIndex, ShownReport, report_text

__all__ = ["ShownHits", "ShownImagination", "ShownIndex", "ShownReport", "explorer_html", "report_text"]
