"""Scores what a replay is worth: cycles against what is known of them, forecasts and windows against the
samples.

A scorer takes what a replay made of a sample, then the sample. May import: ``streams``, ``contract``.
"""
