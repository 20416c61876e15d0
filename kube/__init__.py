"""The Kubernetes API server: configuration, clients, discovery, errors.

May import: ``contract``, ``telemetry``. The only importer of kubernetes.
"""
