"""Measures the host and each pod's containers, from the kernel's own counters.

``tree`` finds the cgroups, ``controllers`` read their files, ``meter`` makes rates of the counters.
May import ``collectors.attribution``, ``telemetry``, ``contract``.
"""
