"""Traces: recorded from topics, replayed in process, republished to topics."""
