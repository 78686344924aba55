"""Training: from experience to a model."""
