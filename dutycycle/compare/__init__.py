"""Runs side by side: what changed, by how much, and whether that is more than a run's own noise.

May import ``dutycycle.report`` and what is below that. ``noise`` is how far a figure of one run can be
trusted, ``figures`` what is measured of a run, ``comparison`` the verdicts; ``text`` and ``page`` write them.
"""
