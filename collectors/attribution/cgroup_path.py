"""Tells from a cgroup's path who it is: a pod's container, another container, a systemd unit, or none of
them.

Pure text work. The layouts are those of the kubelet's two drivers and of the runtimes below it:

    cgroupfs  /kubepods[/burstable|/besteffort]/pod<uid>/[<runtime>-]<container id>
    systemd   …/kubepods[-<qos>]-pod<u_i_d>.slice/<runtime>-<container id>.scope
    mixed     /system.slice/containerd.service/kubepods-<qos>-pod<u_i_d>.slice:cri-containerd:<container id>

Slurm's jobs lie at ``/slurm/uid_<uid>/job_<id>/step_<n>/…`` on v1, below ``slurmstepd.scope/`` on v2.

The uid of a static pod is the hash of its manifest (32 hex digits), which is what the kubelet names its
cgroup by; the API server knows that pod by another uid.
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from uuid import NAMESPACE_DNS, uuid5

_POD_UID = r"[0-9a-fA-F]{8}(?:[-_][0-9a-fA-F]{4}){3}[-_][0-9a-fA-F]{12}|[0-9a-fA-F]{32}"
_POD_DIR = re.compile(rf"pod(?P<uid>{_POD_UID})")
# A kubelet inside a container (kind) puts its own slices before: kubelet-kubepods-burstable-pod….slice
_POD_SLICE = re.compile(rf"(?:.+-)?kubepods(?:-(?P<qos>burstable|besteffort))?-pod(?P<uid>{_POD_UID})\.slice")
_IN_POD = re.compile(r"(?:(?P<runtime>[a-z][\w.-]*)[-_])?(?P<id>[0-9a-f]{32,64})(?:\.scope)?")
_CONTAINER = re.compile(r"(?:(?P<runtime>[a-z][\w.-]*)-)?(?P<id>[0-9a-f]{64})(?:\.scope)?")
_UNIT = re.compile(r".+\.(?:service|scope|socket|mount|swap)")
SLURM = "slurm"
"""Is in the name of a folder above its jobs, and is their namespace."""
_SLURM_JOB = re.compile(r"job_\d+")
_DELETED = " (deleted)"
_RUNTIMES = {"docker": "docker", "libpod": "podman", "libpod-payload": "podman"}
_SYNTHETIC_UIDS = uuid5(NAMESPACE_DNS, "dutycycle.io")


class CgroupKind(StrEnum):
    """Says what a cgroup belongs to; ``OTHER`` is a group that nobody we know made."""

    POD = "pod"
    CONTAINER = "container"
    UNIT = "unit"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupId:
    """Says who a cgroup is.

    ``path``: the cgroup that stands for it, below its hierarchy's root: a container's (or, when the path
    says no container, the pod's), never one nested inside it. ``pod_uid``: of a pod its uid, of anything
    else absent. ``container_id``: absent outside containers and for what runs beside them in a pod
    (conmon). ``qos`` (guaranteed, burstable, besteffort): absent outside pods, and where a cgroup
    namespace hides it. ``name``: what people call it: a container's short id, a unit, or the path.
    ``namespace``: who made what is no pod: docker, podman, containerd, crio, slurm, systemd or cgroup.
    """

    kind: CgroupKind
    path: str
    name: str
    pod_uid: str | None = None
    container_id: str | None = None
    qos: str | None = None
    namespace: str | None = None

    def synthetic_uid(self, node: str) -> str:
        """Return a uid for what has none: the same for the same thing on the same node, whoever computes it.

        A container's comes from its id, which is the same in every hierarchy and cgroup namespace; that
        of anything else from its path.
        """
        of = f"{node}/{self.container_id or self.path}"
        # A folder's name may be no UTF-8, which Python carries as lone surrogates.
        return str(uuid5(_SYNTHETIC_UIDS, of.encode("utf-8", "backslashreplace").decode()))


@dataclass(frozen=True, slots=True)
class _PathPart:
    """Holds one name of a path. ``depth``: how many directories down it ends."""

    name: str
    depth: int


def parse_cgroup_path(path: str) -> CgroupId | None:
    """Tell who the cgroup at ``path`` is; None for the root, which is the host, and for what is no path.

    Of nested pods the deepest counts, and of nested containers the deepest, except that inside a pod it
    is the container that the kubelet made: the one that the pod's status names. A container that makes its
    own path anew inside of itself, as a container manager in it may, stays the outer one, which is all of it.
    """
    if not path.startswith("/"):
        return None
    # A reader in a cgroup namespace of its own sees the others through "..": what is left names them.
    directories = [name for name in path.removesuffix(_DELETED).split("/") if name not in ("", ".", "..")]
    if not directories:
        return None
    parts: list[_PathPart] = []
    for depth, name in enumerate(directories, 1):
        # runc without the systemd driver takes the kubelet's "slice:runtime:id" as one directory's name.
        match name.split(":"):
            case [parent, runtime, container] if parent and container:
                scope = f"{runtime}-{container}.scope" if runtime else container
                parts += [_PathPart(parent, depth), _PathPart(scope, depth)]
            case _:
                parts.append(_PathPart(name, depth))
    whole = _join(directories, len(directories))
    return (
        _pod(parts, directories)
        or _container(parts, directories)
        or _unit(parts, directories)
        or CgroupId(kind=CgroupKind.OTHER, path=whole, name=whole, namespace="cgroup")
    )


def _join(directories: list[str], depth: int) -> str:
    return "/" + "/".join(directories[:depth])


def _pod(parts: list[_PathPart], directories: list[str]) -> CgroupId | None:
    matches = {
        index: match for index, part in enumerate(parts)
        if (match := _POD_DIR.fullmatch(part.name) or _POD_SLICE.fullmatch(part.name)) is not None
    }  # fmt: skip
    if not matches:
        return None
    uid = matches[max(matches)]["uid"].replace("_", "-")
    same = [index for index, match in matches.items() if match["uid"].replace("_", "-") == uid]
    inner = {
        index: inner for index in same if index + 1 < len(parts)
        and (inner := _IN_POD.fullmatch(parts[index + 1].name)) is not None
        and not _is_monitor(inner["runtime"])
    }  # fmt: skip
    index = min(inner, default=same[-1])
    match, depth, container = matches[index], parts[index].depth, None
    if index in inner:
        container, depth = inner[index]["id"], parts[index + 1].depth
    parent = parts[index - 1].name if index else ""
    qos: str | None
    if match.re is _POD_SLICE:
        qos = match["qos"] or "guaranteed"
    elif parent in ("burstable", "besteffort"):
        qos = parent
    else:
        qos = "guaranteed" if parent.endswith("kubepods") else None
    return CgroupId(
        kind=CgroupKind.POD, path=_join(directories, depth), pod_uid=uid, container_id=container,
        name=container[:12] if container else uid, qos=qos,
    )  # fmt: skip


def _is_monitor(runtime: str | None) -> bool:
    # conmon watches a container from outside; it is not what the container uses.
    return runtime is not None and runtime.endswith("conmon")


def _container(parts: list[_PathPart], directories: list[str]) -> CgroupId | None:
    for index in reversed(range(len(parts))):
        match = _CONTAINER.fullmatch(parts[index].name)
        if match is None or _is_monitor(match["runtime"]):
            continue
        runtime = match["runtime"] or (parts[index - 1].name if index else "")
        maker = "crio" if runtime == "crio" else _RUNTIMES.get(runtime, "containerd")
        return _made_by(maker, match["id"], _join(directories, parts[index].depth))
    if len(directories) > 1 and directories[0] == "default":  # containerd's namespace: ids of any form
        return _made_by("containerd", directories[1], _join(directories, 2))
    return None


def _made_by(maker: str, container_id: str, path: str) -> CgroupId:
    return CgroupId(
        kind=CgroupKind.CONTAINER,
        path=path,
        name=container_id[:12],
        container_id=container_id,
        namespace=maker,
    )


def _unit(parts: list[_PathPart], directories: list[str]) -> CgroupId | None:
    for depth, job in enumerate(directories, 1):
        if _SLURM_JOB.fullmatch(job) and any(SLURM in above for above in directories[: depth - 1]):
            path = _join(directories, depth)
            return CgroupId(kind=CgroupKind.UNIT, path=path, name=job, namespace=SLURM)
    # What a service makes below itself (Delegate=yes) is the service's own affair.
    units = [part for part in parts if _UNIT.fullmatch(part.name)]
    if not units and parts[-1].name.endswith(".slice"):
        units = parts
    if not units:
        return None
    last = units[-1]
    path = _join(directories, last.depth)
    return CgroupId(kind=CgroupKind.UNIT, path=path, name=last.name, namespace="systemd")
