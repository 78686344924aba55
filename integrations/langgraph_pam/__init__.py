"""LangGraph on top of ``pam_retriever``: a durable embedded store, whose search also uses experience.

store     ``PAMStore``: the complete ``BaseStore`` of LangGraph
items     the stored items, in one SQLite file: the single source of truth
rows      the data types of that file
memories  the search indexes: one per tenant, derived from the items
reading   checks and parses LangGraph's values, filters and texts
answers   the read operations
sweeper   the thread that deletes expired items
"""

from importlib.util import find_spec

from pam_retriever.errors import MissingExtra

if find_spec("langgraph") is None:
    raise MissingExtra("langgraph", "langgraph", "langgraph_pam")

from langgraph_pam.reading import PAMIndexConfig
from langgraph_pam.store import PAMStore

__all__ = ["PAMIndexConfig", "PAMStore"]
