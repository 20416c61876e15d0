"""``make bench``: what a sample costs here and in the peers, on the real Kafka, and how that grows.

May import everything, like all of ``bench``. ``python -m bench.speed --help`` says what can be chosen.
"""
