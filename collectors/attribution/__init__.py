"""From a process, a cgroup or a device to the pod that uses it.

``processes``: who runs there, by ``/proc/<pid>/cgroup``. ``allocations``: who has the device, by the kubelet.
May import ``telemetry``, ``contract``; ``kubelet`` is the only importer of grpc.
"""
