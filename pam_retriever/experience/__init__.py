"""Experience: trajectories, associations, and their weights."""
