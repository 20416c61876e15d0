"""Gives what a training loop adds, in two lines, to report its steps to the node's collector.

``pytorch``, ``lightning``, ``huggingface`` and ``keras`` are for users; ``reporter`` sends. It runs inside of
trainings: the standard library alone, and of the frameworks the one that the user has.
"""
