"""The quality of default recall in every regime, and the effect of each part."""
