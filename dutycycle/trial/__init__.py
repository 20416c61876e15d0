"""Runs ``dutycycle trial``: short runs of one Job with different numbers of GPUs and placements, compared.

``template`` is the Job of a file, ``options`` what is asked for, ``plan`` the trials within the budget,
``manifest`` the Job of each, ``room`` where it fits. ``session`` runs them, ``access`` says what has to be
there before, ``leftovers`` deletes what a killed program has left, and ``results`` are what was measured.
May import ``dutycycle.submit``, ``dutycycle.measures`` and what is below them.
"""
