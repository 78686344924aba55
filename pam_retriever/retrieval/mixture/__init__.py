"""From evidence to one ranking: sources score candidates, and a mixture weights them.

``sources`` computes the features, ``mixture`` sums them, ``fitting`` learns the weights on ``holdout``, and ``report``
computes means with intervals.
"""
