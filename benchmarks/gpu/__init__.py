"""Every measurement that the pages mark as not run on a GPU: ``python -m benchmarks.gpu --minutes 25``."""
