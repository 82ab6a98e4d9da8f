"""Batches that fit: finding the size, shrinking after running out, keeping the effective batch."""
