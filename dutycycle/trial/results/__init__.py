"""Says what trials have shown: the figures of one, the ``verdict`` on all, and how it is said and written.

Knows of trials only their ``plan``. May import ``dutycycle.measures`` and what is below that.
"""
