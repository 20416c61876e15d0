"""Finds what is odd about a pod, by its own past and by its GPUs among one another: one file for each kind.

``finder`` feeds each minute of a pod to all kinds. Pure; imports the channels and joined spans of its parent.
"""
