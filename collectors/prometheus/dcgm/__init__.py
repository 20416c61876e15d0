"""GPUs from the metrics of dcgm-exporter: ``fields`` (names and units), ``merge``, ``devices``. Pure.

May import what ``collectors.prometheus`` may.
"""
