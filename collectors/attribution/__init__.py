"""Finds the pod that uses a process, a cgroup or a device.

``processes``: who runs there, by ``/proc/<pid>/cgroup``. ``allocations``: who has the device, by the kubelet.
The streams decide which of the two a figure follows: ``dutycycle.contract.ownership``.
May import ``telemetry``, ``contract``; ``kubelet`` is the only importer of grpc.
"""
