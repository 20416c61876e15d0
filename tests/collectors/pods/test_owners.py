"""Goal: an owner that was read stays known, gone or not; what is not known is asked for now and then."""

import pytest

from collectors.pods.owners import OwnerCache, topmost_owner
from dutycycle.kube.client import Client
from dutycycle.kube.config import Access
from dutycycle.kube.errors import BusyError, GoneError, KubeError, RefusedError
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import Metadata, ObjectRef
from dutycycle.telemetry.events import OWNER_FORBIDDEN, Telemetry
from tests.collectors.pods.test_owner import meta, ref
from tests.support.waiting import Clock

FRESH_S = 300
JOB = ObjectRef("g/v1", "RayJob", "job", "ns", "u-job")
POD = meta("pod", ref("RayCluster", "cluster"))


class Api(ApiServer):
    """Answers by name: metadata, or an error; what has no answer is not there."""

    def __init__(self, **answers: Metadata | KubeError) -> None:
        super().__init__(Client(Access("")))
        self.answers = answers
        self.asked: list[str] = []

    async def metadata(self, ref: ObjectRef) -> Metadata:
        self.asked.append(ref.name)
        answer = self.answers.get(ref.name, GONE)
        if isinstance(answer, KubeError):
            raise answer
        return answer


@pytest.fixture
def clock() -> Clock:
    return Clock()


def ray() -> Api:
    return Api(cluster=meta("cluster", ref("RayJob", "job")), job=meta("job"))


GONE = GoneError("404: not found")
FORBIDDEN = RefusedError("403", "403: not for you")
AWAY = BusyError("timeout", "no answer")
ABSENCES = [
    pytest.param(GONE, id="gone"),
    pytest.param(GoneError("RayJob ns/job has another uid now"), id="its name used again"),
    pytest.param(FORBIDDEN, id="forbidden since"),
    pytest.param(AWAY, id="server away"),
]


@pytest.mark.parametrize("absence", ABSENCES)
@pytest.mark.parametrize("absent", [("job",), ("cluster",), ("job", "cluster")])
async def test_an_owner_that_is_gone_is_still_who_it_was(
    absence: Metadata | KubeError, absent: tuple[str, ...], clock: Clock
) -> None:
    """As the garbage collector deletes: the owner first, what it owns a while later."""
    api = ray()
    owners = OwnerCache(api, Telemetry("test"), clock)
    assert await topmost_owner(POD, owners.read) == JOB
    api.answers |= dict.fromkeys(absent, absence)
    for _ in range(3):
        clock.now_s += FRESH_S
        assert await topmost_owner(POD, owners.read) == JOB


async def test_an_owner_that_is_there_and_was_adopted_has_the_new_one(clock: Clock) -> None:
    api = ray()
    owners = OwnerCache(api, Telemetry("test"), clock)
    await topmost_owner(POD, owners.read)
    api.answers |= {"job": meta("job", ref("Queue", "queue")), "queue": meta("queue")}
    clock.now_s += FRESH_S
    assert await topmost_owner(POD, owners.read) == ObjectRef("g/v1", "Queue", "queue", "ns", "u-queue")


@pytest.mark.parametrize("absence", ABSENCES[:2])
async def test_what_was_never_there_is_not_known(absence: Metadata | KubeError, clock: Clock) -> None:
    owners = OwnerCache(Api(job=absence), Telemetry("test"), clock)
    assert await owners.read(JOB) is None


@pytest.mark.parametrize(("answer", "is_lacking"), [(FORBIDDEN, True), (GONE, False), (meta("job"), False)])
async def test_whether_a_permission_lacks_on_the_way(
    answer: Metadata | KubeError, is_lacking: bool, clock: Clock
) -> None:
    api = ray()
    api.answers["job"] = answer
    owners = OwnerCache(api, Telemetry("test"), clock)
    _, lacks = await owners.job_of(POD)
    assert lacks == is_lacking
    api.answers["job"] = AWAY
    clock.now_s += FRESH_S
    assert (await owners.job_of(POD))[1] == is_lacking, "it is as it was, while the server is away"
    api.answers["job"] = meta("job")
    assert await owners.job_of(POD) == (JOB, False)


async def test_a_pod_of_nobody_lacks_no_permission(clock: Clock) -> None:
    assert await OwnerCache(Api(), Telemetry("test"), clock).job_of(meta("pod")) == (None, False)


async def test_what_is_known_is_bounded(clock: Clock) -> None:
    api = Api(a=meta("a"), b=meta("b"), c=meta("c"))
    owners = OwnerCache(api, Telemetry("test"), clock, kept=2)
    for name in "abc":
        await owners.read(ObjectRef("g/v1", "Job", name, "ns", f"u-{name}"))
    api.answers = {}
    clock.now_s += FRESH_S
    known = [await owners.read(ObjectRef("g/v1", "Job", name, "ns", f"u-{name}")) for name in "bca"]
    assert known == [meta("b"), meta("c"), None]


async def test_answers_are_asked_for_once_in_a_while_whatever_they_were(clock: Clock) -> None:
    for answer in (meta("job"), GONE, FORBIDDEN):
        api, telemetry = Api(job=answer), Telemetry("test")
        owners = OwnerCache(api, telemetry, clock)
        for wait_s in (0, FRESH_S - 1, 1, 0):
            clock.now_s += wait_s
            await owners.read(JOB)
        assert api.asked == ["job", "job"]
        assert telemetry.count(OWNER_FORBIDDEN) == (2 if answer is FORBIDDEN else 0)
