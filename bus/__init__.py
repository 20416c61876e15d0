"""The border to Kafka: clients, topics, the embedded broker, and the Faust app that streams and sinks share."""
