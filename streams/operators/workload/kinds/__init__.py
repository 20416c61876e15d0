"""Tells what kind of job a pod is: from figures of its last minutes, and of its GPU alone those of its last
half hour; the models that judge by them. Pure.

Imports the channels of its parent; the recent minutes and all else there is above it.
"""
