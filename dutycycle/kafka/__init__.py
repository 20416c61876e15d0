"""Holds Kafka's clients, topics and the embedded broker. Imports aiokafka, as ``dutycycle.kafka.faust``
does."""
