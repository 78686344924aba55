"""HTML for notebooks: plain strings, with all texts escaped."""

from pam_retriever.display.html import explorer_html
from pam_retriever.display.shown import ShownHits, ShownImagination, ShownIndex, ShownReport

__all__ = ["ShownHits", "ShownImagination", "ShownIndex", "ShownReport", "explorer_html"]
