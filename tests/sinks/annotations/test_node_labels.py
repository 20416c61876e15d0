"""What holds of a node as a whole, and when its labels say so."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from dutycycle.contract.records.health import GpuHealth, NodeHealth
from dutycycle.contract.records.parts import GpuAnalysis, NodePart
from dutycycle.contract.records.samples import Gpu, NvmlSample
from dutycycle.kube.discovery import Kind
from dutycycle.kube.errors import BusyError
from dutycycle.kube.objects import ApiServer
from dutycycle.telemetry.events import Telemetry
from dutycycle.view.newest import NewestRecords
from sinks.annotations.core.node import NodeView
from sinks.annotations.node_labels import NodeLabels
from tests.support.waiting import Clock

IDLE, THROTTLED, SICK = "gpu-idle", "gpu-throttled", "gpu-unhealthy"


def node(
    most: Mapping[str, float | None], reasons: tuple[str, ...] | None = (), level: str | None = None
) -> NodeView:
    """A node: of each GPU its largest utilization of an hour; why clocks are as they are; its health."""
    newest = NewestRecords()
    gpus = tuple(Gpu(uuid=uuid, index=at, throttle=reasons) for at, uuid in enumerate(most))
    newest.put("n", NvmlSample(node="n", collector="c", seq=0, ts_ms=1, interval_ms=1000, gpus=gpus))
    analyses = {
        uuid: GpuAnalysis(maxima={} if value is None else {"gpu_util_pct": value})
        for uuid, value in most.items()
    }
    newest.put("n", NodePart(node="n", ts_ms=1, gpus=analyses))
    if level is not None:
        health = GpuHealth(gpu="a", index=0, level=level, since_ms=1, seen_ms=1)
        newest.put("n", NodeHealth(node="n", ts_ms=1, gpus=(health,)))
    return NodeView("n", newest)


@pytest.mark.parametrize(
    ("view", "holds"),
    [
        (node({"a": 0, "b": 0}), {IDLE: True, THROTTLED: False}),
        (node({"a": 0, "b": 3}), {IDLE: False, THROTTLED: False}),
        (node({"a": 0, "b": None}), {THROTTLED: False}),  # of one it is not known
        (node({"a": 9}, ("gpu_idle", "hw_slowdown")), {IDLE: False, THROTTLED: True}),
        (node({"a": 9}, ("sw_power_cap",)), {IDLE: False, THROTTLED: False}),  # as somebody has set it
        (node({"a": 9}, None), {IDLE: False}),
        (node({"a": 9}, level="drain"), {IDLE: False, THROTTLED: False, SICK: True}),
        (node({"a": 9}, level="watch"), {IDLE: False, THROTTLED: False, SICK: False}),
        (node({}), {}),
        (NodeView("n", NewestRecords()), {}),
    ],
)
def test_what_holds_of_a_node_is_known_of_all_its_gpus(view: NodeView, holds: dict[str, bool]) -> None:
    assert view.conditions() == holds


class Server:
    """Takes labels, or is busy."""

    def __init__(self) -> None:
        self.labels: list[dict[str, str | None]] = []
        self.busy = False

    async def merge(self, kind: Kind, name: str, namespace: str, change: Mapping[str, Any]) -> None:
        assert (kind.name, name) == ("Node", "n")
        if self.busy:
            raise BusyError("429", "wait", retry_after_s=10)
        self.labels.append(
            {key.removeprefix("p/"): value for key, value in change["metadata"]["labels"].items()}
        )


async def test_only_changes_are_written_and_what_is_not_known_has_no_label() -> None:
    server, clock, holds = Server(), Clock(1000.0), {IDLE: True, THROTTLED: True}
    labels = NodeLabels(
        cast("ApiServer", server), "p", lambda _: holds, "annotations", Telemetry("sink"), clock
    )

    async def written(sampled: bool = True) -> list[dict[str, str | None]]:
        server.labels.clear()
        if sampled:
            labels.sampled("n", 1)
        await labels.write_due(lambda: True)
        return list(server.labels)

    server.busy = True
    assert await written() == []
    server.busy = False
    assert await written() == []  # it was asked to wait
    clock.now_s += 10
    assert await written() == [{IDLE: "true", THROTTLED: "true", SICK: None}]
    assert await written() == []
    holds |= {IDLE: False, THROTTLED: False}
    assert await written() == [{IDLE: "false", THROTTLED: "true", SICK: None}]  # clocks go up and down
    clock.now_s += 300
    assert await written() == [{IDLE: "false", THROTTLED: "false", SICK: None}]
    clock.now_s += 600
    assert await written() == []
    clock.now_s += 1  # the node may have been deleted and registered anew, and then has none
    assert await written() == [{IDLE: "false", THROTTLED: "false", SICK: None}]
    clock.now_s += 601  # no sample came
    assert await written(sampled=False) == [dict.fromkeys((IDLE, THROTTLED, SICK))]
    assert await written(sampled=False) == []
    clock.now_s += 601
    assert await written(sampled=False) == [], "nothing is known of it any more"
