"""The cgroup collector: the host and each pod's containers, by the kernel's counters."""
