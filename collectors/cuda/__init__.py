"""Collects kernel launches and copies of pods, from logs of libraries that intercept CUDA calls.

``counters`` is pure. May import ``collectors.rates``, ``telemetry``, ``contract``.
"""
