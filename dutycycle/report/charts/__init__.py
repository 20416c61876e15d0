"""Makes the charts of a report: as plain data, which of them there are, as figures of Plotly, and as PNG
files.

May import what ``dutycycle.report`` may; of that only ``gather``, ``view`` and ``phases``.
"""
