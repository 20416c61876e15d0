"""Records traces from topics, replays them in process, and publishes them to topics again.

``frames`` holds the figures of samples as arrays.
"""
