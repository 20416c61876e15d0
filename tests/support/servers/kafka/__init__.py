"""A single-node Apache Kafka in KRaft mode, from the jars that Maven resolves."""
