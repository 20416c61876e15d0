"""Brings records from the collectors to Kafka: in order, acknowledged, on disk while the broker is
unreachable.

``publisher`` sends, ``outbox`` is the queue in memory and on disk, ``spool`` is the part on disk.
May import ``kafka``, ``telemetry``, ``contract``.
"""
