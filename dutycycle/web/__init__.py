"""Shows in a browser what the screen shows of a ``LiveState``, and the ledger of the records.

``server`` answers, ``pages`` makes HTML by the templates; ``fleet``, ``idle`` and ``subject`` say what is on
them, ``ledger`` what the records say again and again, ``studies`` makes reports of runs. Tables are those of
the screen. Nothing is written anywhere.
"""
