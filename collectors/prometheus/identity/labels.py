"""Reads what the labels of a series say of its target, its namespace, and the pod that it is about. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from collectors.prometheus.series import SeriesLabels

Target = tuple[str, str]
"""The job and the instance of a scrape."""
POD_INFO = "kube_pod_info"
RENAMED = "exported_"
"""How a scrape without ``honor_labels`` begins the exporter's labels that the target has as well."""
NODE_LABELS = (
    f"{RENAMED}node", "node", "kubernetes_node", "kubernetes_io_hostname", "node_name", "k8s_node_name"
)  # fmt: skip
"""In which a scrape configuration names the node of a target, the surest first."""
OWN_HOST = ("localhost", "127.0.0.1", "::1")
"""What every host calls itself: it names none."""
_KINDS = (
    (RENAMED, ""),
    ("container_label_io_kubernetes_", "_name"),
    ("", "_name"),
    ("", ""),
)
"""Prefix and suffix of the labels that name a pod, the surest first; ``pod_name`` is dcgm-exporter's with its
option ``use-old-namespace``."""
_HPC_JOB, HPC = "hpc_job", "hpc"
"""The label by which dcgm-exporter names a job of a batch system such as Slurm (``--hpc-job-mapping-dir``),
and the namespace that such jobs have here."""
_SANDBOX = ("", "POD")


@dataclass(frozen=True, slots=True)
class Workload:
    """Names a pod by its names, and the container inside, which is empty for the pod as a whole.

    ``namespace`` is empty where the labels have none.
    """

    namespace: str
    pod: str
    container: str = ""


def workload_of(labels: SeriesLabels) -> Workload | None:
    """Return the workload that a series is about; None for none.

    A scrape without ``honor_labels`` renames the exporter's labels to ``exported_…`` and puts the
    exporter's own pod in their place. cAdvisor on its own shows the runtime's labels.
    """
    return next((who for _, who in workloads(labels)), None)


def workloads(labels: SeriesLabels) -> Iterator[tuple[bool, Workload]]:
    """Yield what the labels may mean, the surest first; True where a scrape may have written its own pod
    there."""
    for prefix, suffix in _KINDS:
        if pod := labels.get(f"{prefix}pod{suffix}", "").strip():
            container = labels.get(f"{prefix}container{suffix}", "")
            spaces = [f"{prefix}pod_namespace", f"{prefix}namespace"]
            if suffix and not prefix:  # the target has written its own namespace there
                spaces.insert(1, f"{RENAMED}namespace")
            namespace = next((text for name in spaces if (text := labels.get(name, "").strip())), "")
            yield not (prefix or suffix), Workload(namespace, pod, "" if container in _SANDBOX else container)
    if job := labels.get(_HPC_JOB, "").strip():
        yield False, Workload(HPC, job)


def namespace_of(labels: SeriesLabels) -> str:
    """Return the namespace of what a series is about, and not that of the exporter."""
    return labels.get(f"{RENAMED}namespace") or labels.get("namespace", "")


def first_of(labels: SeriesLabels, names: Iterable[str]) -> str:
    """Return the text of the first of these labels that says something; empty without any."""
    return next((labels[name] for name in names if labels.get(name)), "")


def target_of(labels: SeriesLabels) -> Target:
    """Tell where a series was scraped: the exporter, where one Prometheus has it of another (federation)."""
    return (
        labels.get("exported_job") or labels.get("job", ""),
        labels.get("exported_instance") or labels.get("instance", ""),
    )


def address_of(labels: SeriesLabels) -> str:
    """Return the host of the target, without its port and the brackets of IPv6; empty for none."""
    _, instance = target_of(labels)
    return (instance.rpartition(":")[0] or instance).strip("[]")
