"""Adds what the stock kube-scheduler lacks: predictions, priorities, scores of nodes. Imports
``contract``."""
