"""Parses and checks settings, which are environment variables and flags, at the start.

``groups`` has every setting with its default and help, ``parsers`` reads a text, ``load`` all of them.
May import: ``dutycycle.contract.errors``.
"""
