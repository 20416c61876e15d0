"""Makes the report of a trace: what was measured and derived, as charts and figures on one page.

May import ``dutycycle.profile``, ``dutycycle.traces`` and what is below that. ``gather`` reads records, and
``view`` chooses whose; ``charts``, ``phases`` and ``facts`` are what is said of them; ``page`` and ``tables``
write it.
"""
