"""Computes all that scheduling needs, pure: time is an argument. The simulator and the servers call the same
functions."""
