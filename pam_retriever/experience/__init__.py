"""What happened: trajectories, who met whom, and how much each meeting counts."""
