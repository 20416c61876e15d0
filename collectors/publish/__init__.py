"""From the collectors to Kafka: in order, acknowledged, on disk while the broker is unreachable."""
