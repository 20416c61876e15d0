"""Turns samples into columns of numbers: one row a tick, one column a series. Pure.

Imports contract alone, and is imported by every bank.
"""
