"""The learnt model: the predictor, the episode embeddings, and the keys made of both."""
