"""Finds who a series is about: ``labels``, ``pods``, ``nodes``, and of which of several ``clusters``. Pure.

May import what ``collectors.prometheus`` may.
"""
