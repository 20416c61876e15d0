"""Kafka's clients, topics and the embedded broker. The only importer of aiokafka but ``bus.faust.driver``."""
