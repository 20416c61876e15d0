"""The border to Kafka. May import: ``contract``, ``telemetry``.

``kafka/``  clients, topics, security, the embedded broker
``faust/``  the Faust app that streams and sinks share
"""
