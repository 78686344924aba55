"""Database engines that an index can live in: PostgreSQL with pgvector, and Milvus."""

from pam_retriever.engines.milvus.backend import MilvusBackend
from pam_retriever.engines.postgres.backend import PgVectorBackend

__all__ = ["MilvusBackend", "PgVectorBackend"]
