"""The NVML collector: every GPU of the node. ``gate`` is the only importer of pynvml."""
