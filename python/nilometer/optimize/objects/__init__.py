"""Objects that accumulate: what grows, where it was allocated, who holds it."""
