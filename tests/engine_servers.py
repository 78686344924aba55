"""Real engines for tests: one PostgreSQL for the whole run, and a new index for each call."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pam_retriever import MilvusBackend, PgVectorBackend

NAMES = ["pgvector", "milvus"]
# for ``parametrize``: the command in the README runs such tests on PostgreSQL; CI also runs them on Milvus
ENGINES = ["pgvector", pytest.param("milvus", marks=pytest.mark.slow)]
numbers = itertools.count()


@cache
def postgres() -> Any:
    """Returns a server in a new folder, which stops at the end of the process. Other users may enter the folder.

    Skips the test where there is no wheel of pgserver: for Python 3.13 and outside Linux.
    """
    pgserver = pytest.importorskip("pgserver")
    return pgserver.get_server(tempfile.mkdtemp(prefix="pam-postgres-"), cleanup_mode="delete")


def fresh_engine(kind: str) -> Any:
    """Returns an engine that has no index yet."""
    return {"pgvector": fresh_postgres, "milvus": fresh_milvus}[kind]()


def fresh_postgres(**options: Any) -> PgVectorBackend:
    return PgVectorBackend(postgres().get_uri(), schema=f"index_{next(numbers)}", **options)


@cache
def milvus_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="pam-milvus-"))
    atexit.register(_remove, folder, os.getpid())
    return folder


def _remove(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # forked processes also run this at their end
        shutil.rmtree(folder, ignore_errors=True)


def fresh_milvus(**options: Any) -> MilvusBackend:
    return MilvusBackend(milvus_folder() / f"index_{next(numbers)}.db", **options)


def stop_servers() -> None:
    """Stops the servers that this module started, Milvus Lite first.

    A forked process stops PostgreSQL; gRPC prints a warning on a fork while its own server runs.
    """
    if "milvus_lite.server_manager" in sys.modules:
        sys.modules["milvus_lite.server_manager"].server_manager_instance.release_all()
    if postgres.cache_info().currsize:
        postgres().cleanup()
        postgres.cache_clear()
