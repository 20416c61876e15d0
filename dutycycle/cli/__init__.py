"""Is the command line: ``main`` parses and dispatches, ``arguments`` are shared, ``service`` runs for long.

Modules import what is heavy inside functions, so that ``--help`` is fast.
"""
