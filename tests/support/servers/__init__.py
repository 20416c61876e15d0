"""Real Kafka, PostgreSQL and Prometheus for the tests, each started by its own program on a loopback port.

``plugin`` is the map: it turns each server into a fixture. A server whose program is missing skips the
test with a way to get it; under ``CI=true`` that is a failure instead (docs/decisions/0002).
"""
