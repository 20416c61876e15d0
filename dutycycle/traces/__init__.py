"""Traces: recorded from topics, replayed in process, or published to topics again.

``frames`` holds the figures of samples as arrays.
"""
