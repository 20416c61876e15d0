"""Draws a few series, from traces or from what a replay wrote into a folder.

May import: ``dutycycle.report``, ``dutycycle.tables``, ``dutycycle.traces``,
``dutycycle.run``, ``streams``, ``contract``.
"""
