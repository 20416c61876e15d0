"""Rules over a pod's statistics: its bottleneck, the size that is enough, and advice in a sentence. Pure.

Imports the channels of its parent; the classifier and all else there is above it.
"""
