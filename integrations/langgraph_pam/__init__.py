"""LangGraph on top of ``pam_retriever``: a durable store inside the process, whose search also recalls experience.

store     ``PAMStore``: LangGraph's ``BaseStore``, whole
items     what is stored, in one SQLite file: the single source of truth
rows      what that file takes and gives
memories  the indexes that make it findable: one a tenant, derived from the items
reading   values, filters and texts of LangGraph, checked
answers   the operations that read
sweeper   the thread that deletes what has expired
"""

from importlib.util import find_spec

from pam_retriever.errors import MissingExtra

if find_spec("langgraph") is None:
    raise MissingExtra("langgraph", "langgraph", "langgraph_pam")

from langgraph_pam.reading import PAMIndexConfig
from langgraph_pam.store import PAMStore

__all__ = ["PAMIndexConfig", "PAMStore"]
