"""Is the front door: the command ``dutycycle``, ``dutycycle up`` with its live view, traces, the kubectl
plugin.

May import everything; nothing imports it.
"""
