"""Runs side by side: what changed, by how much, and whether that is more than a run's own noise.

``comparison`` has the verdicts on ``dutycycle.measures``; ``text`` and ``page`` write them. May import that
and what is below it.
"""
