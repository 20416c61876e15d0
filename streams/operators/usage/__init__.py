"""Counts what was used of a node in each hour of the clock, and by whom: the ledger. Pure.

Imports columns, and is imported by the node operator alone.
"""
