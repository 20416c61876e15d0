"""Kafka's clients, topics and the embedded broker. Imports aiokafka, as ``bus.faust`` does."""
