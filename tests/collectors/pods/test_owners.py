"""Goal: an owner that was read stays known, gone or not; what is not known is asked for now and then."""

from collections.abc import Mapping
from typing import Any

import pytest

from collectors.pods import owners as pods_owners
from collectors.pods.api import ApiError, ApiServer
from collectors.pods.owner import Owner, topmost_owner
from collectors.pods.owners import OwnerCache
from telemetry.events import OWNER_FORBIDDEN, Telemetry
from tests.collectors.pods.test_owner import meta, ref

FRESH_S = 300
JOB = Owner("g/v1", "RayJob", "job", "u-job")
POD = meta("pod", ref("RayCluster", "cluster"))


class Api(ApiServer):
    """Answers by name: metadata, None for what is not there, or an error."""

    def __init__(self, **answers: Mapping[str, Any] | ApiError | None) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def owner(self, namespace: str, owner: Owner) -> Mapping[str, Any] | None:
        self.asked.append(owner.name)
        answer = self.answers.get(owner.name)
        if isinstance(answer, ApiError):
            raise answer
        return answer


class Clock:
    """Moved by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def ray() -> Api:
    return Api(cluster=meta("cluster", ref("RayJob", "job")), job=meta("job"))


def forbidden() -> ApiError:
    return ApiError(403, "not for you")


ABSENCES = [
    pytest.param(None, id="gone"),
    pytest.param(meta("job", uid="another"), id="its name used again"),
    pytest.param(ApiError(403, "not for you"), id="forbidden since"),
    pytest.param(ApiError(0, "no answer"), id="server away"),
]


@pytest.mark.parametrize("absence", ABSENCES)
@pytest.mark.parametrize("absent", [("job",), ("cluster",), ("job", "cluster")])
def test_an_owner_that_is_gone_is_still_who_it_was(
    absence: Mapping[str, Any] | ApiError | None, absent: tuple[str, ...], clock: Clock
) -> None:
    """As the garbage collector deletes: the owner first, what it owns a while later."""
    api = ray()
    owners = OwnerCache(api, Telemetry("test"), clock)
    assert topmost_owner(POD, owners.read) == JOB
    api.answers |= dict.fromkeys(absent, absence)
    for _ in range(3):
        clock.now_s += FRESH_S
        assert topmost_owner(POD, owners.read) == JOB


def test_an_owner_that_is_there_and_was_adopted_has_the_new_one(clock: Clock) -> None:
    api = ray()
    owners = OwnerCache(api, Telemetry("test"), clock)
    topmost_owner(POD, owners.read)
    api.answers |= {"job": meta("job", ref("Queue", "queue")), "queue": meta("queue")}
    clock.now_s += FRESH_S
    assert topmost_owner(POD, owners.read) == Owner("g/v1", "Queue", "queue", "u-queue")


@pytest.mark.parametrize("absence", ABSENCES[:2])
def test_what_was_never_there_is_not_known(absence: Mapping[str, Any] | None, clock: Clock) -> None:
    owners = OwnerCache(Api(job=absence), Telemetry("test"), clock)
    assert owners.read("ns", JOB) is None


@pytest.mark.parametrize(
    ("answer", "is_lacking"),
    [(forbidden(), True), (None, False), (meta("job"), False), (meta("job", uid="another"), False)],
)
def test_whether_a_permission_lacks_on_the_way(
    answer: Mapping[str, Any] | ApiError | None, is_lacking: bool, clock: Clock
) -> None:
    api = ray()
    api.answers["job"] = answer
    owners = OwnerCache(api, Telemetry("test"), clock)
    _, lacks = owners.job_of(POD)
    assert lacks == is_lacking
    api.answers["job"] = ApiError(0, "no answer")
    clock.now_s += FRESH_S
    assert owners.job_of(POD)[1] == is_lacking, "it is as it was, while the server is away"
    api.answers["job"] = meta("job")
    assert owners.job_of(POD) == (JOB, False)


def test_a_pod_of_nobody_lacks_no_permission(clock: Clock) -> None:
    assert OwnerCache(Api(), Telemetry("test"), clock).job_of(meta("pod")) == (None, False)


def test_what_is_known_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods_owners, "_KEPT", 2)
    api = Api(a=meta("a"), b=meta("b"), c=meta("c"))
    owners = OwnerCache(api, Telemetry("test"), clock)
    for name in "abc":
        owners.read("ns", Owner("g/v1", "Job", name, f"u-{name}"))
    api.answers = {}
    clock.now_s += FRESH_S
    known = [owners.read("ns", Owner("g/v1", "Job", name, f"u-{name}")) for name in "bca"]
    assert known == [meta("b"), meta("c"), None]


def test_answers_are_asked_for_once_in_a_while_whatever_they_were(clock: Clock) -> None:
    for answer in (meta("job"), None, forbidden()):
        api, telemetry = Api(job=answer), Telemetry("test")
        owners = OwnerCache(api, telemetry, clock)
        for wait_s in (0, FRESH_S - 1, 1, 0):
            clock.now_s += wait_s
            owners.read("ns", JOB)
        assert api.asked == ["job", "job"]
        assert telemetry.count(OWNER_FORBIDDEN) == (2 if isinstance(answer, ApiError) else 0)
