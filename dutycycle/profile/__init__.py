"""Reads what a profiler saw from inside: exports of Nsight Systems and traces of PyTorch, and what they say.

``export`` reads an SQLite export of Nsight Systems; ``chrome`` makes the same tables of a Chrome trace.
``statistics`` has the tables that ``nsys stats`` prints, ``timeline`` what the GPUs did and what they waited
for, ``verdict`` the bottleneck; ``profile`` puts them together, ``terminal`` prints them and ``publish``
tells the sinks and reports of them. May import ``dutycycle.traces``, ``streams.operators`` and ``kafka``.
"""
