"""``kubectl dutycycle health``: of which nodes it speaks, in which order, and what of others."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from dutycycle.kubectl import cli
from dutycycle.kubectl.nodes import show_health

P = "dutycycle.io"
GONE = "gpu 3: reset: Xid 79: GPU has fallen off the bus, since 2023-11-14 22:13 UTC; restart the machine"
WAITS = (
    "gpu 1: watch: row remapping waits for a reset, since 2023-11-14 22:13 UTC; reset the GPU when convenient"
)
NODES: dict[str, dict[str, str]] = {
    "a": {f"{P}/gpu_health": "healthy"},
    "b": {f"{P}/gpu_health": "watch", f"{P}/gpu_health_reason": WAITS},
    "c": {f"{P}/gpu_health": "reset", f"{P}/gpu_health_reason": f"{GONE}\n{WAITS}"},
    "d": {},
}


class Cluster:
    """What ``Api`` answers of nodes."""

    def list(self, *_: Any) -> list[Mapping[str, Any]]:
        return [{"name": name, "annotations": annotations} for name, annotations in NODES.items()]


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str]:
    args = cli.parsed(["health", "--prefix", P, *arguments])
    show_health(Cluster(), args)  # type: ignore[arg-type]
    found = capsys.readouterr()
    return found.out, found.err


def test_the_worst_node_comes_first_and_each_gpu_has_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = shown(capsys)
    assert out.splitlines() == [
        "NODE   HEALTH   GPUS",
        f"c      reset    {GONE}",
        f"                {WAITS}",
        f"b      watch    {WAITS}",
    ]
    assert err == (
        "1 of 3 nodes healthy; "
        "of 1 nothing is known: they have no GPU, or no collector that reads its health\n"
    )


def test_all_of_them_and_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "--all", "--no-headers")[0].splitlines()[-1] == "a   healthy   -"
    assert [one["name"] for one in orjson.loads(shown(capsys, "-o", "json")[0])] == ["c", "b", "a"]
