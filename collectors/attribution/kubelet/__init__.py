"""Asks the kubelet's pod-resources interface which devices a container was given. ``api_pb2`` is
generated."""
