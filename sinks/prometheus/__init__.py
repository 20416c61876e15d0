"""GPUs, pods and jobs as series for Prometheus. May import: ``kafka``, ``telemetry``, ``contract``.

``usage`` and ``counters`` integrate the samples, ``view`` is what the topics say now, ``series`` makes rows
of it, ``write_request`` makes requests of them; these are pure. ``reader`` follows the topics,
``remote_write`` sends to a receiver, ``service`` is the process.
"""
