"""Turns samples into windows, trends, cycles and peaks."""
