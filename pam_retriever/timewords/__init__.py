"""Times in words: the periods in questions and texts, and their evidence for memories."""
