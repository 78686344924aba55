"""Next-step recall: predicts what comes after a trajectory.

``steps`` reads the trajectory, ``transitions`` counts what followed its steps in experience, ``features`` computes
features from these counts, from content and from ``repeats``, ``fitting`` learns the weights of a ``mixture`` on
held-out experience, and ``scorer`` answers.
"""
