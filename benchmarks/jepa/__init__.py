"""The two predictors on raw observations (benchmarks/notes/jepa.md). ``python -m benchmarks.jepa all``."""
