"""Writes the state of keys to changelog topics, reads it back, and fences it."""
