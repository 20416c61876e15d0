"""Collects, by NVML, every GPU of the node, its MIG slices and its processes.

``gate`` is the only importer of pynvml, ``session`` knows which GPUs can be read, ``device`` reads one.
May import ``collectors.attribution``, ``telemetry``, ``contract``.
"""
