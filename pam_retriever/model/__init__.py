"""The learnt model: the predictor, the episode embeddings, and the keys that consist of both."""
