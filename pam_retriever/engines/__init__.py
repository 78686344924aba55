"""Database engines that can hold an index: PostgreSQL with pgvector, and Milvus."""

from pam_retriever.engines.milvus.backend import MilvusBackend
from pam_retriever.engines.postgres.backend import PgVectorBackend

__all__ = ["MilvusBackend", "PgVectorBackend"]
