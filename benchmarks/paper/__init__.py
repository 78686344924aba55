"""The paper's experiments: ``python -m benchmarks.paper <experiment>``."""
