"""Dutycycle's tests, one folder for each layer."""
