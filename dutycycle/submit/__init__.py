"""Runs ``dutycycle run job.yaml``: a job on a cluster, from its objects to its report, and nothing left
behind.

``documents`` reads the YAML; ``objects`` makes and deletes what is in it; ``follow`` knows its pods,
``states`` says how they are, and ``outcome`` how the job ended; ``records`` collects what was measured.
May import ``dutycycle.run``, ``dutycycle.report`` and what is below them.
"""
