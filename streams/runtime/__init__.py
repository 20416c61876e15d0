"""Runs a stage's operators exactly: keys, checkpoints, eviction, and the port to Faust."""
