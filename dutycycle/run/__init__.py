"""Runs ``dutycycle run``: a command on this machine, measured from its start to its end, with a report.

``command`` starts it and passes signals on, ``nsys`` puts a profiler around it; ``process_tree`` and
``collector`` measure it; ``run`` puts that into the pipeline, in threads beside it; ``summary`` is what is
said at the end. May import ``dutycycle.report`` and what is below that.
"""
