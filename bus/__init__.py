"""The border to Kafka: clients, topics, the embedded broker, and the Faust app of streams and sinks."""
