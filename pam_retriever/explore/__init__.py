"""A local page that shows what an index has learnt: a small server, and the page that it serves."""

from pam_retriever.explore.protocol import Explorable, Source
from pam_retriever.explore.serving import Explorer, explore

__all__ = ["Explorable", "Explorer", "Source", "explore"]
