"""Tells whether the GPUs are in order: the driver's events, counters of faults, and what changed.

May import ``collectors.nvml`` and what that may.
"""
