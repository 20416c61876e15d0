"""Holds the pure operators: no clock, no chance, no I/O. Time comes with the data."""
