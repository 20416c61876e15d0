"""Simulates a machine with eight GPUs, for whoever has none: ``dutycycle demo`` and ``dutycycle up --demo``.

``workloads`` is what its pods do at each moment, ``machine`` measures it as a node would be measured.
May import ``telemetry``, ``contract``.
"""
