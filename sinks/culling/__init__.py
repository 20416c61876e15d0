"""Stops workloads that hold GPUs and have used none of them for hours: ``dutycycle cull``.

``verdicts`` and ``stops`` are pure. It imports ``dutycycle``'s ``kafka``, ``kube``, ``telemetry`` and
``contract``, and no other sink.
"""
