"""Collects the same records from samples of dcgm-exporter, cAdvisor and node_exporter.

``query`` is the only importer of prometheus_api_client; ``gpus``, ``containers`` and ``host`` are pure.
May import ``collectors.attribution``, ``collectors.pods.table``, ``telemetry``, ``contract``.
"""
