"""Experience: trajectories, which memories met, and how much each meeting counts."""
