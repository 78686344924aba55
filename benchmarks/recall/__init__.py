"""How good default recall is in every regime, and what each part of it adds."""
