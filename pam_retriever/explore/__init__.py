"""A local page that shows what an index has learnt: a small server, and the page that it serves."""

from pam_retriever.explore.serving import Explorer, explore
from pam_retriever.explore.source import Source

__all__ = ["Explorer", "Source", "explore"]
