"""Holds everything that knows Faust's insides: app, consumer, producer, assignor, runner.

May import: ``kafka`` and what lies below it.
"""
