"""Times in words: the periods that questions and texts name, and what they say about memories."""
