"""Kills, full disks, flipped bytes, random operations, fuzzing, and threads; docs/results/reliability.md."""
