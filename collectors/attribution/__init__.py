"""From a process or a device to the pod that uses it. May import: ``contract``, ``collectors.base``."""
