"""The page for a browser: what the screen shows of a ``LiveState``, and the ledger of the records.

``server`` answers, ``pages`` makes HTML by the templates; ``fleet``, ``idle`` and ``subject`` say what is on
them.
Tables are those of the screen. Nothing is written anywhere.
"""
