"""Asks the kubelet's pod-resources interface which devices a container has. ``api_pb2`` is generated."""
