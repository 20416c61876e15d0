"""Traces: recorded from topics, replayed in process, or published to topics again."""
