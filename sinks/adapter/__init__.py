"""Answers the API server, as the metrics adapter, for autoscalers, as an aggregated API server.

It serves ``custom.metrics.k8s.io`` and ``external.metrics.k8s.io`` from the derived topics. ``figures``,
``seasonal_load`` and ``answers`` are pure. It imports ``view``, ``kube``, ``telemetry`` and
``contract``, and no other sink.
"""
