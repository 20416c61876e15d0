"""Measures the host and each pod's containers, from the kernel's own counters.

``tree`` finds the cgroups, ``v1`` and ``v2`` read their files, ``meter`` makes rates of the counters.
May import ``collectors.attribution``, ``telemetry``, ``contract``.
"""
