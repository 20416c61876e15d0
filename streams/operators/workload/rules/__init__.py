"""Judges by rules over a pod's statistics: its bottleneck, the size that is enough, advice in a sentence,
whether it lost its cycle. Pure.

Imports the channels and the joined spans of its parent; the classifier and all else there is above it.
"""
