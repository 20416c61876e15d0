"""What of a state may be seen by who may see some namespaces alone: the rest is there without its names."""

from collections.abc import Collection
from copy import copy

from msgspec import structs

from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import GpuRow, PodRow, Row

OTHERS = "another namespace"
"""Stands for the name and the uid of each pod of a namespace that may not be seen."""


def limited(state: LiveState, namespaces: Collection[str]) -> LiveState:
    """Give the state with the pods of ``namespaces``, and with all GPUs and nodes.

    Other pods are left out. On GPUs and as the owners of processes they are one pod, ``OTHERS``; processes
    that are none of a pod's have no name either. Figures stay. A pod of which no namespace is known is
    another's. Rows are those of ``state`` wherever nothing in them is hidden.
    """
    own = {
        row.uid
        for row in tuple(state.rows.values())
        if isinstance(row, PodRow) and namespace_of(row) in namespaces
    }
    rows: dict[str, Row] = {f"pod/{OTHERS}": PodRow(f"pod/{OTHERS}", OTHERS, uid=OTHERS)}
    for key, row in tuple(state.rows.items()):
        if isinstance(row, PodRow) and row.uid not in own:
            continue
        rows[key] = row
        if not isinstance(row, GpuRow):
            continue
        gpu = row.now
        uids = [process.pod_uid for process in gpu.processes or ()]
        uids += [given.pod_uid for given in gpu.allocated or ()]
        if all(uid in own for uid in uids) and row.pods.issubset(own):
            continue
        processes = gpu.processes and tuple(
            process if process.pod_uid in own
            else structs.replace(process, name=None, container_id=None, pod_uid=process.pod_uid and OTHERS)
            for process in gpu.processes
        )  # fmt: skip
        allocated = gpu.allocated and tuple(
            given if given.pod_uid in own
            else structs.replace(given, pod_uid=OTHERS, namespace=OTHERS, pod="", container=None)
            for given in gpu.allocated
        )  # fmt: skip
        other = copy(row)
        other.now = structs.replace(gpu, processes=processes, allocated=allocated)
        other.pods = frozenset(uid if uid in own else OTHERS for uid in row.pods)
        rows[key] = other
    return state.of_rows(rows)


def namespace_of(pod: PodRow) -> str:
    """Return the namespace as Kubernetes has told it, or as an exporter has; empty where nobody did."""
    return pod.namespace if pod.identity is None else pod.identity.namespace or ""
