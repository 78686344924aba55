"""Growth: cost and recall from 100 thousand memories up (docs/scaling.md)."""
