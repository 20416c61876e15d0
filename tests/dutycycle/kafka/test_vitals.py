"""Goal: a worker of Kafka is ready while it reads; what goes on for long is said, what passes is not."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from dutycycle.contract.settings.load import load
from dutycycle.kafka.faust.vitals import Vitals
from dutycycle.kafka.reachability import Reachability
from dutycycle.telemetry.events import BROKER_UNREACHABLE, Telemetry
from dutycycle.telemetry.metrics import REBALANCES, UNASSIGNED
from dutycycle.telemetry.watchdog import StallDetector, StallLimits
from tests.support.metrics import metric_value

SESSION_S = 10.0
SAID_S, ENDED_S = StallLimits().said_s, StallLimits().ended_s
SETTINGS = load({"DUTYCYCLE_BROKER": "kafka://k:9092", "DUTYCYCLE_NODE": "a"})


def made(**attributes: Any) -> Any:
    """Something with these attributes, which mypy takes for whatever is asked for."""
    return SimpleNamespace(**attributes)


class World:
    """An app in a state that the test sets, and a clock that it moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.member = True
        self.stuck: str | None = None
        self.behind: str | None = None
        self.missing: list[str] = []
        self.state: dict[tuple[str, int], tuple[int | None, int | None]] = {}
        self.client = object()
        self.consumer = SimpleNamespace(
            _thread=SimpleNamespace(_consumer=self.client),
            counted_in_s=math.inf,
            positions=lambda: [(TP(*place), *state) for place, state in self.state.items()],
            is_member=lambda: self.member,
            trouble=lambda: self.stuck,
            behind=lambda: self.behind,
            missing_topics=lambda: self.missing,
        )
        recovery = SimpleNamespace(
            _recovery_started_at=None, _recovery_ended_at=None, active_offsets={"changelog": 5}
        )
        telemetry = Telemetry("stream")
        self.app = made(
            conf=SimpleNamespace(broker_session_timeout=SESSION_S), failure=None, crashed=False, ready=False,
            unread_partitions={},
            should_stop=False, rebalancing=False, rebalancing_count=1, topic_prefix="t.",
            next_offset=lambda *_: None, is_backpressured=lambda: False, _consumer=self.consumer,
            tables=SimpleNamespace(recovery=recovery),
            telemetry=telemetry, reachability=Reachability(SETTINGS, telemetry),
        )  # fmt: skip
        self.vitals = Vitals(self.app, lambda: self.now)

    def assign(self, places: dict[tuple[str, int], tuple[int | None, int | None]]) -> None:
        self.state = places

    def passes(self, seconds: float, *, beats: bool = True) -> None:
        """So much time, second by second."""
        for _ in range(int(seconds)):
            self.now += 1
            self.vitals.observe()
            if beats:
                self.consumer.counted_in_s = self.now


@pytest.fixture
def world() -> World:
    return World()


def ready(world: World) -> None:
    world.app.ready = True
    world.passes(2)
    assert world.vitals.readiness_error() is None


def test_what_it_waits_for_at_the_start(world: World) -> None:
    world.member = False
    world.consumer._thread._consumer = None
    world.passes(3, beats=False)
    assert world.vitals.readiness_error() == "connecting for 3 s"
    world.consumer._thread._consumer = world.client
    assert world.vitals.readiness_error() == "joining the group for 3 s"
    world.member, world.app.rebalancing = True, True
    assert world.vitals.readiness_error() == "in rebalance 1 for 3 s"
    world.app.rebalancing = False
    assert world.vitals.readiness_error() == "recovering state for 3 s"
    ready(world)


def test_it_is_never_ready_by_accident_while_it_starts(world: World) -> None:
    telemetry = world.app.telemetry
    assert telemetry.status.readiness_error() == "starting"
    world.vitals.register()
    assert str(telemetry.status.readiness_error()).startswith("group: ")
    assert metric_value(telemetry, REBALANCES) == 1
    ready(world)
    assert telemetry.status.readiness_error() is None
    world.app.failure = "commit: x"
    assert telemetry.status.liveness_error() == telemetry.status.readiness_error() == "worker: commit: x"


def test_a_rebalance_that_ends_is_part_of_life(world: World) -> None:
    ready(world)
    world.app.ready, world.app.rebalancing = False, True
    world.passes(SAID_S)
    assert world.vitals.readiness_error() is None
    ready(world)


def test_a_rebalance_that_does_not_end_is_told(world: World) -> None:
    ready(world)
    world.app.ready, world.app.rebalancing, world.app.rebalancing_count = False, True, 7
    world.passes(SAID_S + 2)
    assert world.vitals.readiness_error() == "in rebalance 7 for 31 s"
    assert world.vitals.liveness_error() is None, "it may still end"
    ready(world)


def test_a_broker_that_does_not_answer_is_told(world: World) -> None:
    ready(world)
    world.passes(SESSION_S, beats=False)
    assert world.vitals.readiness_error() is None
    world.passes(2, beats=False)
    assert world.vitals.readiness_error() == "the broker has not answered for 12 s"
    telemetry = world.app.telemetry
    assert telemetry.conditions == {
        (
            "broker_unreachable",
            "timeout",
        ): "no answer for 10 s (DUTYCYCLE_BROKER=kafka://k:9092); trying again"
    }
    world.passes(30, beats=False)
    ready(world)
    assert telemetry.conditions == {}
    assert telemetry.count(BROKER_UNREACHABLE) == 1


def test_a_topic_that_is_gone_makes_unready_and_ends_the_worker(world: World) -> None:
    ready(world)
    world.missing = ["t.state-nvml"]
    world.passes(SAID_S)
    assert world.vitals.readiness_error() is None, "a view of the cluster may be old for a moment"
    world.passes(2)
    error = world.vitals.readiness_error()
    assert error is not None
    assert error.startswith("topic t.state-nvml is gone, and nothing is read without it")
    assert world.vitals.stalled() is None
    world.passes(ENDED_S)
    assert "topic t.state-nvml is gone" in str(world.vitals.stalled())
    world.missing = []
    ready(world)
    assert world.vitals.stalled() is None


def test_the_member_that_deals_out_says_what_nobody_reads(world: World) -> None:
    world.vitals.register()
    ready(world)
    world.app.unread_partitions = {"t.nvml-samples": 4, "t.pods": 0, "t.state-nvml": 4}
    assert metric_value(world.app.telemetry, UNASSIGNED, topic="nvml-samples") == 4
    world.passes(SAID_S + 2)
    assert str(world.vitals.readiness_error()).startswith("nobody reads partitions of nvml-samples (4), for")
    world.app.unread_partitions = {"t.nvml-samples": 0}
    ready(world)


def test_reading_that_does_not_move_is_told(world: World) -> None:
    ready(world)
    world.behind = "read to 7"
    world.passes(SAID_S)
    assert world.vitals.readiness_error() is None
    world.passes(2)
    assert world.vitals.readiness_error() == "read to 7, and no further for 31 s"
    world.behind = "read to 8"
    world.passes(1)
    assert world.vitals.readiness_error() is None
    world.behind = None
    world.passes(2 * SAID_S)
    assert world.vitals.readiness_error() is None, "there is nothing more to read"


def test_a_worker_without_partitions_stands_by(world: World) -> None:
    world.assign({})
    ready(world)
    assert world.vitals.lags() == {}
    assert world.vitals.assigned() == {}


def test_lag_is_what_was_not_taken_yet(world: World) -> None:
    world.assign({
        ("t.pods", 0): (100, 90), ("t.pods", 1): (50, 50), ("t.pods", 2): (None, None),
        ("t.nvml-samples", 0): (10, 10),
    })  # fmt: skip
    world.app.next_offset = lambda topic, partition: 70 if (topic, partition) == ("pods", 0) else None
    assert world.vitals.lags() == {("pods",): [30, 0], ("nvml-samples",): [0]}
    assert world.vitals.assigned() == {("pods",): 3, ("nvml-samples",): 1}


def test_reading_and_recovering_without_progress_end_the_process(world: World) -> None:
    ready(world)
    world.behind = "read to 7"
    world.passes(ENDED_S)
    assert world.vitals.stalled() is None
    world.app.is_backpressured = lambda: True
    world.passes(ENDED_S)
    assert world.vitals.stalled() is None, "a sink says itself that it waits"
    world.app.is_backpressured = lambda: False
    world.passes(ENDED_S + 2)
    assert world.vitals.stalled() == "no progress in 180 s: read to 7"
    world.app.ready = False
    world.passes(ENDED_S)
    assert world.vitals.stalled() is None
    world.app.tables.recovery.active_offsets = {"changelog": 6}
    world.passes(ENDED_S)
    assert world.vitals.stalled() is None, "it recovers"
    world.passes(2)
    says = "no progress in 180 s: not reading since rebalance 1, changelogs read to 6"
    assert world.vitals.stalled() == says


def test_a_process_that_stalled_has_to_end(world: World) -> None:
    ready(world)
    detector = world.app.telemetry.stall_detector = StallDetector(clock=lambda: world.now)
    detector.process_limit_s = 6.0
    detector.beat()
    world.now += 7
    assert world.vitals.stalled() == "the process stalled for too long"


@pytest.mark.parametrize(
    ("failure", "crashed", "stuck", "said"),
    [
        (None, False, None, None),
        ("commit: x", False, None, "commit: x"),
        (None, True, None, "crashed: 'why'"),
        (None, False, "the group coordinator waits since Y", "the group coordinator waits since Y"),
    ],
)
def test_what_does_not_come_back(
    world: World, failure: str | None, crashed: bool, stuck: str | None, said: str | None
) -> None:
    world.app.failure, world.app.crashed, world.app.crash_reason = failure, crashed, "why"
    world.stuck = stuck
    assert world.vitals.liveness_error() == said


def test_how_long_the_last_recovery_took(world: World) -> None:
    assert world.vitals.recovery_s() is None
    recovery = world.app.tables.recovery
    recovery._recovery_started_at = 10.0
    assert world.vitals.recovery_s() is None
    recovery._recovery_ended_at = 12.5
    assert world.vitals.recovery_s() == 2.5
    recovery._recovery_started_at = 20.0
    assert world.vitals.recovery_s() is None, "the next one is under way"


@pytest.mark.parametrize(
    ("end", "taken", "wanted"),
    [(5, 9, "t-0 ends at offset 5, but was read to 9"), (9, 9, None), (10, 9, None), (None, 9, None),
     (5, None, None)],
    ids=["shorter", "all read", "more to read", "not known yet", "nothing taken"],
)  # fmt: skip
def test_a_log_that_is_shorter_than_what_was_taken_is_wrong_after_some_looks(
    world: World, end: int | None, taken: int | None, wanted: str | None
) -> None:
    world.app.ready = True
    world.app.next_offset = lambda *_: taken
    world.assign({("t.t", 0): (end, 0)})
    world.passes(2)
    assert world.vitals.truncated() is None
    world.passes(1)
    assert (world.vitals.truncated() or "").startswith(wanted or "")
    assert (world.vitals.truncated() is None) is (wanted is None)
    world.assign({("t.t", 0): (9, 0)})
    world.passes(1)
    assert world.vitals.truncated() is None
