"""Carries results out of Kafka: annotations on Kubernetes objects, peak records in SQL, answers to
autoscalers."""
