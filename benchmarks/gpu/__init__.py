"""What the pages say was not run on a GPU, in one command: ``python -m benchmarks.gpu --minutes 25``."""
