"""When a run is over, with which status, and what is said on the way."""

import pytest

from dutycycle.submit.objects import CannotRunError
from dutycycle.submit.outcome import Outcome
from tests.support.kube.statuses import Json, ended, job, pod, waiting
from tests.support.kube.watched_job import Watched

RUNNING: Json = {"running": {}}


def test_it_is_over_when_all_that_end_have() -> None:
    watched = Watched("Job", "MPIJob", "Deployment")
    progress = watched.progress()
    watched.says("Job", job(("Complete", "")))
    assert progress.look(1) is None
    watched.says("MPIJob", job(("Succeeded", "")))
    assert progress.look(2) == Outcome(0, "job/x, mpijob/x: succeeded")


def test_it_is_over_when_the_first_has_failed() -> None:
    watched = Watched("Job", "MPIJob")
    watched.has("MPIJob", pod("Failed", state=ended(9)))
    watched.says("MPIJob", job(("Failed", "")))
    assert watched.progress().look(1) == Outcome(9, "mpijob/x: failed: exit code 9 of main in pod p")


def test_it_is_over_when_somebody_has_deleted_it() -> None:
    watched = Watched("Job")
    watched.follower.lost.add("uid-Job")
    assert watched.progress().look(1) == Outcome(1, "job/x: somebody has deleted it")
    watched.has("Job", pod("Running", state=RUNNING))
    assert watched.progress().look(1) == Outcome(1, "job/x: somebody has deleted it")


@pytest.mark.parametrize(
    ("phase", "code", "outcome"),
    [("Succeeded", 0, Outcome(0, "job/x: succeeded")),
     ("Failed", 4, Outcome(4, "job/x: failed: exit code 4 of main in pod p"))],
)  # fmt: skip
def test_a_job_that_was_deleted_because_it_had_ended(phase: str, code: int, outcome: Outcome) -> None:
    watched = Watched("Job")
    watched.has("Job", pod(phase, state=ended(code)))
    watched.follower.lost.add("uid-Job")
    assert watched.progress().look(1) == outcome


@pytest.mark.parametrize(("state", "status"), [(RUNNING, 0), (waiting("CrashLoopBackOff"), 5)])
def test_what_never_ends_is_over_after_its_time_from_the_first_container_on(state: Json, status: int) -> None:
    watched = Watched("Deployment")
    progress = watched.progress(for_s=10)
    watched.has("Deployment", pod("Pending"))
    assert progress.look(100) is None
    thing = pod("Running", state=state)
    thing["status"]["containerStatuses"][0]["lastState"] = ended(5) if status else {}
    watched.has("Deployment", thing)
    assert progress.look(101) is None
    assert progress.look(110.9) is None
    found = progress.look(111)
    assert found is not None
    assert found.status == status


def test_a_timeout_says_why_nothing_has_started() -> None:
    watched = Watched("Job")
    progress = watched.progress(timeout_s=60)
    assert progress.look(59) is None
    never = "never started within 1m, as --timeout says: "
    assert progress.look(60) == Outcome(124, f"{never}job/x: no pod was made for it yet")
    watched.has("Job", pod(node=None))
    assert progress.look(60) == Outcome(124, f"{never}p is pending: no node was chosen yet")
    watched.has("Job", pod("Running", state=RUNNING))
    assert progress.look(60) == Outcome(124, "not over after 1m, as --timeout says")


def test_an_image_may_come_within_a_minute() -> None:
    watched = Watched("Pod")
    progress = watched.progress()
    watched.has("Pod", pod(state=waiting("ErrImagePull", "try later")))
    assert progress.look(1) is None
    assert progress.look(60) is None
    watched.has("Pod", pod("Running", state=RUNNING))
    assert progress.look(61) is None
    watched.has("Pod", pod(state=waiting("ImagePullBackOff", "try later")))
    assert progress.look(70) is None
    with pytest.raises(CannotRunError, match=r"^pod p: image train:1 cannot be pulled: try later$"):
        progress.look(130)


def test_a_name_that_no_image_can_have_ends_it_at_once() -> None:
    watched = Watched("Pod")
    watched.has("Pod", pod(state=waiting("InvalidImageName", "bad")))
    with pytest.raises(CannotRunError, match="cannot be pulled: bad"):
        watched.progress().look(1)


def test_each_change_is_said_once() -> None:
    watched = Watched("Job")
    progress = watched.progress()
    assert list(progress.changes()) == ["job/x: no pod was made for it yet"]
    watched.has("Job", pod(node=None))
    assert list(progress.changes()) == ["pod p: pending: no node was chosen yet"]
    assert list(progress.changes()) == []
    watched.follower.away["pods"] = "https://api does not answer"
    assert list(progress.changes()) == [
        "API server: https://api does not answer; the job goes on, and it is tried again"
    ]
    watched.follower.away.clear()
    watched.has("Job", pod("Running", state=RUNNING))
    assert list(progress.changes()) == ["pod p: running on gpu-a", "API server: answers"]
    watched.follower.gone.add("u-p")
    assert list(progress.changes()) == ["pod p: deleted"]
