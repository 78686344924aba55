"""Code memory: the files of a repository, and its history as experience."""

from pam_retriever.apps.code.learning import Learnt, learn, state_of
from pam_retriever.apps.code.memory import CodeMemory, FileHit, Reason
from pam_retriever.apps.code.repository import Repository, RepositoryUnreadable

__all__ = ["CodeMemory", "FileHit", "Learnt", "Reason", "Repository", "RepositoryUnreadable", "learn", "state_of"]
