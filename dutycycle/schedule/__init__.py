"""Runs jobs of a trace through several ways to schedule them, in simulated time: ``dutycycle schedule``.

The order and the scores are computed by ``sinks.scheduling.core``, as for a real cluster.
"""
