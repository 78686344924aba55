"""What is learnt: the predictor, the episode embeddings, and the keys made of both."""
