"""Samples as columns of numbers: one row a tick, one column a series. Pure."""
