"""Makes GPUs of the metrics of dcgm-exporter: ``fields`` (names and units), ``merge``, ``devices``. Pure.

May import what ``collectors.prometheus`` may.
"""
