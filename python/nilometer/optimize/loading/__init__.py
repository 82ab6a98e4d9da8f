"""Data loading: what workers copy, and datasets that they share."""
