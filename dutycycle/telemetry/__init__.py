"""Says how a process how it is: events, metrics, status, and the HTTP pages that show them.

May import: ``contract``, prometheus_client. Every process serves ``/healthz``, ``/readyz`` and ``/metrics``.
"""
