"""Checks what has to be there before a trial: a class by which it preempts nobody, and large enough nodes."""

from typing import Any

from dutycycle.kube.discovery import NODE, POD, PODS_NOT_ENDED
from dutycycle.kube.discovery import PRIORITY_CLASS as CLASS
from dutycycle.kube.errors import BusyError, GoneError, KubeError, RefusedError
from dutycycle.kube.heartbeat import LABELS
from dutycycle.kube.objects import ApiServer
from dutycycle.submit.objects import MANAGER, CannotRunError, explained
from dutycycle.trial.options import PRIORITY_CLASS
from dutycycle.trial.room import Room, room_of
from dutycycle.trial.template import JobTemplate

THE_CLASS: dict[str, Any] = {
    "apiVersion": CLASS.api_version, "kind": CLASS.name,
    "metadata": {"name": PRIORITY_CLASS, "labels": LABELS},
    "value": -1000, "preemptionPolicy": "Never", "globalDefault": False,
    "description": "Trials of Dutycycle: they preempt nobody, and all others go first.",
}  # fmt: skip
"""Below -10 the cluster autoscaler adds no node for a pod."""


async def check_class(server: ApiServer, name: str) -> None:
    """Check that a class keeps a trial from preempting; ours is made where it is missing. Raises
    ``CannotRunError``."""
    try:
        priority_class = await server.read(CLASS, name)
    except GoneError as error:
        if name != PRIORITY_CLASS:
            raise CannotRunError(f"--priority-class {name}: the cluster has none of this name") from error
        priority_class = None
    except KubeError as error:
        raise explained(error, f"read the PriorityClass {name}", server) from error
    if priority_class is None:
        try:
            await server.submit(CLASS, THE_CLASS, MANAGER)
        except RefusedError as error:
            raise CannotRunError(
                f"there is no PriorityClass {PRIORITY_CLASS}, and you may not create it: ask who may: "
                f"kubectl create priorityclass {PRIORITY_CLASS} --value=-1000 --preemption-policy=Never"
            ) from error
        except KubeError as error:
            # 409: somebody else has made it in this moment
            if not isinstance(error, BusyError) or error.reason != "409":
                raise explained(error, f"create the PriorityClass {PRIORITY_CLASS}", server) from error
    elif priority_class.get("preemptionPolicy") != "Never":
        raise CannotRunError(
            f"the PriorityClass {name} lets its pods preempt others, which a trial must not: "
            "give one with preemptionPolicy: Never"
        )


async def room(server: ApiServer, template: JobTemplate, *, free: bool) -> Room | None:
    """Return the GPUs of the nodes that a Job takes, all of them or those that are free.

    None where nodes, or for the free ones the pods of all, may not be listed.
    """
    try:
        nodes = [node async for node in server.whole(NODE)]
        pods = (await server.list_all(POD, PODS_NOT_ENDED))[0] if free else ()
    except RefusedError:
        return None
    except KubeError as error:
        raise explained(error, "list nodes and pods", server) from error
    return room_of(nodes, pods, template)
