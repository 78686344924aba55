"""The experiments that chose the recipes of ``fit``."""
