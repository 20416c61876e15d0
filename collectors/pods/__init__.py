"""Watches the API server's pods and publishes which they are and which job owns them.

May import ``kube``, beside what every collector may.
"""
