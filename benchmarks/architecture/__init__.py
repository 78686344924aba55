"""Experiments on the parts of the architecture that the paper argues for: ``python -m benchmarks.architecture``."""
