"""Tells what the topics say now, followed in no group: the follower that sinks and commands share.

May import: ``kafka``, ``telemetry``, ``contract``.
"""
