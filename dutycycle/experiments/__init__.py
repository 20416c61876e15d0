"""Replays of one trace with many settings: plans, processes, scores and tables.

May import: ``dutycycle.traces``, ``streams``, ``contract``.
"""
