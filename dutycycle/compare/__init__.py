"""Runs side by side: what changed, by how much, and whether that is more than a run's own noise.

``comparison`` has the verdicts on ``dutycycle.measures``, also as text; ``page`` shows them. May import that
and what is below it.
"""
