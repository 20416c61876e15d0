"""Gives new pods their priorities while the API server admits them.

``queue`` and ``admission`` are pure: which place a pod gets, and how that is written. ``classes`` keeps the
PriorityClasses, ``server`` answers, ``service`` is the process.
"""
