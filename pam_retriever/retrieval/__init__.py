"""From a query to hits."""
