"""Collects what runs on the GPUs, seen from outside, and what training loops report.

``libraries`` and ``commands`` are pure. May import ``collectors.attribution``, ``telemetry``, ``contract``.
"""
