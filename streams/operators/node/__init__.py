"""Holds the operator of a node: watermark, windows, analysis (trends and cycles), and the records that it
sends. Pure.

The top of the operators: it imports all others, and none imports it.
"""
