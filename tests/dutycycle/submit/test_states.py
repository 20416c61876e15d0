"""How a pod is, in words, and how a job ended."""

import pytest

from dutycycle.submit.outcome import Outcome, held_back, outcome_of
from dutycycle.submit.states import exits_of, state_of
from tests.support.kube.statuses import Json, ended, job, pod, waiting


def scheduled(reason: str, message: str) -> list[Json]:
    return [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]


def tekton(status: str, reason: str) -> Json:
    """A TaskRun, which has one condition for all that may come of it."""
    condition = {"type": "Succeeded", "status": status, "reason": reason}
    return {"apiVersion": "tekton.dev/v1", "kind": "TaskRun", "status": {"conditions": [condition]}}


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (pod(node=None), "pending: no node was chosen yet"),
        (pod(node=None, conditions=scheduled("Unschedulable", "0/3 nodes\nare available")),
         "pending: unschedulable: 0/3 nodes are available"),
        (pod(node=None, conditions=scheduled("SchedulingGated", "waits for a gate")),
         "pending: held back by its scheduling gates: waits for a gate"),
        (pod(), "pending on gpu-a: its containers are being made"),
        (pod(state=waiting("ContainerCreating")), "pending on gpu-a: its containers are being made"),
        (pod(state=waiting("ImagePullBackOff", "not found")),
         "pending: image train:1 cannot be pulled: not found"),
        (pod(state=waiting("CreateContainerConfigError", 'secret "s" not found')),
         'pending: container main cannot be started: CreateContainerConfigError: secret "s" not found'),
        (pod("Running", state={"running": {}}), "running on gpu-a"),
        (pod("Running", state=waiting("CrashLoopBackOff")), "waits to restart, 3 restarts"),
        (pod("Running", state={"running": {}}, deleted=True), "is being deleted on gpu-a"),
        (pod("Unknown"), "unknown: its node does not answer on gpu-a"),
        (pod("Succeeded"), "succeeded"),
        (pod("Failed", state=ended(137, reason="OOMKilled")), "failed: exit code 137 (OOMKilled)"),
        (pod("Failed", reason="Evicted", message="The node was low on memory."),
         "failed: Evicted The node was low on memory."),
        (pod("Failed"), "failed: no reason is given"),
    ],
)  # fmt: skip
def test_words(thing: Json, words: str) -> None:
    assert state_of(thing).words == words


def test_events_tell_what_is_done_before_a_start() -> None:
    pulling = {"reason": "Pulling", "type": "Normal", "message": "Pulling image"}
    mounting = {"reason": "FailedMount", "type": "Warning", "message": "configmap not found"}
    assert state_of(pod(), [pulling]).words == "pending on gpu-a: pulling: Pulling image"
    assert state_of(pod(), [pulling, mounting]).words == "pending on gpu-a: configmap not found"


@pytest.mark.parametrize(
    ("reason", "cannot", "hopeless"),
    [("ErrImagePull", True, False), ("ImagePullBackOff", True, False), ("InvalidImageName", True, True),
     ("ErrImageNeverPull", True, True), ("CreateContainerConfigError", True, False),
     ("ContainerCreating", False, False), ("CrashLoopBackOff", False, False)],
)  # fmt: skip
def test_what_cannot_start(reason: str, cannot: bool, hopeless: bool) -> None:
    found = state_of(pod(state=waiting(reason)))
    assert (found.cannot_start is not None, found.hopeless) == (cannot, hopeless)


def test_a_container_that_was_restarted_has_its_last_exit() -> None:
    thing = pod("Running", state=waiting("CrashLoopBackOff"))
    thing["status"]["containerStatuses"][0]["lastState"] = ended(3)
    assert [one.code for one in exits_of(thing)] == [3]
    assert state_of(thing).words == "waits to restart after exit code 3, 3 restarts"


@pytest.mark.parametrize(
    ("thing", "outcome"),
    [
        (job(), None),
        (job(("Suspended", "")), None),
        (job(("FailureTarget", "BackoffLimitExceeded")), None),
        (job(("SuccessCriteriaMet", ""), ("Complete", "")), Outcome(0, "succeeded")),
        (job(("Created", ""), ("Succeeded", "MPIJobSucceeded")), Outcome(0, "succeeded")),
        (job(("Completed", "AllJobsCompleted")), Outcome(0, "succeeded")),
        (job(("Failed", "DeadlineExceeded")), Outcome(1, "failed: DeadlineExceeded")),
        (job(jobStatus="RUNNING"), None),
        (job(jobStatus="SUCCEEDED"), Outcome(0, "succeeded")),
        (job(jobStatus="FAILED", message="no such module"), Outcome(1, "failed: no such module")),
        (job(jobStatus="RUNNING", jobDeploymentStatus="Running"), None),
        (job(jobStatus="STOPPED", jobDeploymentStatus="Complete"), Outcome(1, "failed: STOPPED")),
        (
            job(jobStatus="", jobDeploymentStatus="Failed", message="not begun in time"),
            Outcome(1, "failed: not begun in time"),
        ),
        (job(jobStatus="FAILED", jobDeploymentStatus="Retrying"), None),
        (job(jobDeploymentStatus="ValidationFailed", message="no head"), Outcome(1, "failed: no head")),
        (job(jobStatus="Successful"), Outcome(0, "succeeded")),
        (job(state="ready"), None),
        (job(state="failed"), Outcome(1, "failed: failed")),
        (job(applicationState="RUNNING"), None),
        (job(conditions=["Ready"]), None),
        (job(conditions={"type": "Complete"}), None),
        (job() | {"status": "Ready"}, None),
        (tekton("Unknown", "Running"), None),
        (tekton("True", "Succeeded"), Outcome(0, "succeeded")),
        (tekton("False", "TaskRunTimeout"), Outcome(1, "failed: TaskRunTimeout")),
        (job(state={"phase": "Aborted"}), Outcome(1, "failed: Aborted")),
        (job(applicationState={"state": "RUNNING"}), None),
        (job(applicationState={"state": "COMPLETED"}), Outcome(0, "succeeded")),
        (
            job(applicationState={"state": "FAILED", "errorMessage": "no driver"}),
            Outcome(1, "failed: no driver"),
        ),
        (job(phase="Running"), None),
        (job(("Completed", ""), phase="Failed", message="step 2"), Outcome(1, "failed: step 2")),
        (job(("Completed", ""), phase="Succeeded"), Outcome(0, "succeeded")),
        ({"kind": "Job", "metadata": {}}, None),
        (pod("Running"), None),
        (pod("Succeeded"), Outcome(0, "succeeded")),
        (pod("Failed", reason="Evicted"), Outcome(1, "failed: Evicted")),
    ],
)
def test_how_a_job_ended(thing: Json, outcome: Outcome | None) -> None:
    assert outcome_of(thing, []) == outcome


def test_what_a_job_says_at_length_is_cut() -> None:
    outcome = outcome_of(job(jobStatus="FAILED", message="no such\nmodule " * 50), [])
    assert outcome is not None
    assert outcome.words.startswith("failed: no such module no such module")
    assert outcome.words.endswith(" …")
    assert len(outcome.words) == 248


def test_a_failed_job_has_the_exit_code_of_the_container_that_failed_first() -> None:
    killed = pod("Failed", state=ended(143, "2026-01-01T00:00:10Z"), name="w-1")
    cause = pod("Failed", state=ended(7, "2026-01-01T00:00:09Z"), name="w-0")
    done = pod("Succeeded", state=ended(0, "2026-01-01T00:00:08Z", "Completed"), name="w-2")
    found = outcome_of(job(("Failed", "PodFailed")), [killed, done, cause])
    assert found == Outcome(7, "failed: exit code 7 of main in pod w-0")


@pytest.mark.parametrize(("code", "status"), [(1, 1), (255, 255), (256, 1), (3221225477, 1), (-1, 1)])
def test_a_status_is_one_that_a_process_can_have(code: int, status: int) -> None:
    """256 would be taken for 0, which is success."""
    failed = pod("Failed", state=ended(code, "2026-01-01T00:00:10Z"))
    found = outcome_of(job(("Failed", "")), [failed])
    assert found == Outcome(status, f"failed: exit code {code} of main in pod {failed['metadata']['name']}")


def test_what_holds_pods_back() -> None:
    assert held_back(job()) is None
    assert held_back(job(("Suspended", "JobSuspended"))) == "suspended: JobSuspended"
    assert held_back(job(("ReplicaFailure", "FailedCreate"))) == "its pods are refused: FailedCreate"
