"""Decides whose a GPU is: pure rules for the ledger, the peaks, the series and the screen. Imports numpy and
records.

``who_uses`` decides which pods use a GPU, and how that is known; ``division`` parts the GPU's figures among
them; ``now`` is both for one newest sample; ``words`` has the words for how it is known.
"""
