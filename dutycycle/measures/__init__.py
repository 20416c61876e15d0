"""Measures what a run did, in figures with their standard errors: comparisons and trials judge runs by these.

``noise`` is how far a figure of one run can be trusted, ``steps`` and ``figures`` what is measured of a run,
``change`` whether two runs differ. May import ``dutycycle.report`` and what is below that.
"""
