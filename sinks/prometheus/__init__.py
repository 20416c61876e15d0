"""Serves GPUs, pods and jobs as series for Prometheus. May import: ``view``, ``telemetry``, ``contract``.

``view`` is what the topics say now, ``series`` makes rows of it, ``write_request`` makes requests of them;
these are pure. ``remote_write`` sends to a receiver, ``role`` is what ``serve`` does with it.
"""
