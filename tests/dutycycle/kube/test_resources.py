"""Goal: what a pod asks for is what its node keeps free for it, however it is written; nothing is guessed."""

from typing import Any

import pytest

from dutycycle.kube.resources import gpu_request, limit, request


def asking(cpu: Any = None, most: Any = None, **more: Any) -> dict[str, Any]:
    """A container with a request and a limit, or a pod that states them as a whole."""
    stated = {
        "requests": {"cpu": cpu} if cpu is not None else {},
        "limits": None if most is None else {"cpu": most},
    }
    return {"resources": stated} | more


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "asks", "may_use"),
    [
        ({}, None, None),
        ({"containers": [{}]}, None, None),
        ({"containers": [{"resources": None}]}, None, None),
        ({"containers": [asking("2")]}, 2, None),
        ({"containers": [asking(2, 4.5)]}, 2, 4.5),
        ({"containers": [asking("0", "0")]}, 0, None),
        ({"containers": [asking("100m"), asking("200m", "1")]}, 0.3, None),
        ({"containers": [asking("1500m", "2"), asking("500m", "2500m")]}, 2, 4.5),
        ({"containers": [asking(None, "4"), {}]}, 4, None),
        ({"containers": [asking("1k")]}, 1000, None),
        ({"containers": [asking("1"), asking("many")]}, 1, None),
        ({"containers": [asking("NaN"), asking("-1"), asking("1e30")]}, None, None),
        ({"containers": [asking("2", "2")], "initContainers": [asking("16", "16")]}, 2, 2),
        ({"containers": [asking("2", "2")], "initContainers": [asking("1", "3", **SIDECAR)]}, 3, 5),
        ({"containers": [asking("2", "2")], "initContainers": [asking("1", **SIDECAR)]}, 3, None),
        (asking("8", "9") | {"containers": [asking("2", "2"), {}]}, 8, 9),
        (asking("8") | {"containers": [asking("2", "4")]}, 8, 4),
        (asking(None, "8") | {"containers": [{}]}, 8, 8),
        (asking(None, "8") | {"containers": [asking("2")]}, 2, 8),
    ],
)
def test_cpu_in_cores(spec: dict[str, Any], asks: float | None, may_use: float | None) -> None:
    assert (request(spec, "cpu"), limit(spec, "cpu")) == (asks, may_use)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64Gi", 64 * 2**30), ("1500M", 1.5e9), (1024, 1024), ("1.5Gi", 1.5 * 2**30), ("12e6", 12e6),
        ("5gb", None), (" 2Gi ", 2 * 2**30),
    ],
)  # fmt: skip
def test_memory_in_bytes(text: Any, size: float | None) -> None:
    assert request({"containers": [{"resources": {"requests": {"memory": text}}}]}, "memory") == size


@pytest.mark.parametrize(
    ("resource", "gpus"),
    [
        ("nvidia.com/gpu", 2), ("nvidia.com/gpu.shared", 2), ("nvidia.com/mig-1g.10gb", 2),
        ("nvidia.com/a100", 2), ("nvidia.com/H100", 2), ("nvidia.com/a100-40gb", 2),
        ("nvidia.com/rtxa6000", 2),
        ("nvidia.com/gh200.shared", 2), ("nvidia.com/GA102GL_A10", 2), ("nvidia.com/gpumem", None),
        ("nvidia.com/hostdev", 0), ("nvidia.com/bf3_vf", 0), ("rdma/hca", 0),
        ("nvidia.com/t4", 2), ("nvidia.com/a100sxm4", 2), ("nvidia.com/tesla-v100", 2),
        ("nvidia.com/p0_sriov", 0), ("nvidia.com/p1_vfs", 0), ("nvidia.com/p4p1", 0), ("nvidia.com/l2", 0),
        ("nvidia.com/v6net", 0), ("nvidia.com/SRIOV_RDMA", 0), ("nvidia.com/BF3_VF", 0),
    ],
)  # fmt: skip
def test_which_resources_are_gpus(resource: str, gpus: float | None) -> None:
    """A cluster may call GPUs by their model, and cards of its network as it likes."""
    assert gpu_request({"containers": [{"resources": {"limits": {resource: 2}}}]}, None) == gpus
