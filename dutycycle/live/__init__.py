"""Runs ``dutycycle up``: the processes on this machine (``children``), and a view of the topics
(``follow``)."""
