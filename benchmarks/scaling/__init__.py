"""Growth: cost and recall from 100 thousand memories up (benchmarks/notes/scaling.md)."""
