"""How the recipes of ``fit`` were chosen."""
