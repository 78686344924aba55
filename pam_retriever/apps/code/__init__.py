"""Code memory: the files of a repository, and its history as experience."""

from pam_retriever.apps.code.learning import LearningReport, learn, state_of
from pam_retriever.apps.code.memory import CodeMemory, FileHit, Reason
from pam_retriever.apps.code.repository import Repository, RepositoryUnreadable

Learnt = LearningReport  # the name until version 0.2

__all__ = [
    "CodeMemory",
    "FileHit",
    "LearningReport",
    "Learnt",
    "Reason",
    "Repository",
    "RepositoryUnreadable",
    "learn",
    "state_of",
]
