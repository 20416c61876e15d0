"""Makes what the page of one GPU, node, pod or job shows beside its figures: charts, health, the past.

It may import what ``dutycycle.web`` may, and nothing of it.
"""
