"""The report of a trace: what was measured and derived, as charts and figures on one page.

May import ``dutycycle.profile``, ``dutycycle.traces`` and what is below that. ``gather`` reads records, and
``view`` chooses whose; ``charts`` (with ``cycles`` and ``forecasts``), ``phases`` and ``facts`` are what is
said of them; ``page``, ``pictures`` and ``tables`` write it.
"""
