"""Next-step recall: predicts the memory after the last step of a trajectory.

``steps`` reads the trajectory, ``transitions`` counts the memories that followed its steps, ``features`` computes
features from these counts, from content and from ``repeats``, ``fitting`` learns the weights of a ``mixture`` on
held-out experience, and ``scorer`` answers.
"""
