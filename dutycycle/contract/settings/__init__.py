"""Settings: environment variables and flags, parsed and checked at the start.

``groups`` has every setting with its default and help, ``parsers`` reads a text, ``load`` all of them.
May import: ``dutycycle.contract.errors``.
"""
