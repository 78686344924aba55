"""Real data: dialogues and browsing, with real embeddings."""
