"""Runs ``dutycycle serve``: what answers from the topics, in one process: ``roles`` lists what there is.

``service`` is the process, ``listener`` answers over TLS for all roles that are asked. Each role stands in
the folder of what it does, and imports ``role`` from here.
"""
