"""The two predictors on raw observations (docs/jepa.md). ``python -m benchmarks.jepa all``."""
