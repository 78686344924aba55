"""How it is learnt: from experience to a model."""
