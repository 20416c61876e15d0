"""GPUs, pods and jobs as series for Prometheus. May import: ``bus.kafka``, ``telemetry``, ``contract``.

``usage`` and ``counters`` integrate the samples, ``view`` is what the topics say now, ``series`` makes rows
of it; these are pure. ``reader`` follows the topics, ``service`` is the process.
"""
