"""Whose a GPU is: pure rules for the ledger, the peaks, the series and the screen. Imports numpy and records.

The words for how it is known are in ``dutycycle.contract.attribution``.
"""
