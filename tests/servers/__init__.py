"""Real Kafka, PostgreSQL and Prometheus for the tests, each started by its own program on a loopback port."""
