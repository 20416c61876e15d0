"""What the API server's words about a missing permission come to, and when it is asked for again."""

import pytest

from dutycycle.kube.errors import RefusedError
from sinks.annotations.core.targets import Target
from sinks.annotations.forbidden import RETRY_S, ForbiddenKindError, Refusals
from sinks.permissions import missing_permission
from tests.support.sinks.rig import Rig

JOBS = [Target("job", "kubeflow.org/v2beta1", "MPIJob", "bert", where) for where in ("a", "b")]


def cannot(verb: str) -> str:
    """The API server's words."""
    return f'403: User "u" cannot {verb} resource "mpijobs" in API group "kubeflow.org"'


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        (
            '403: nodes "a" is forbidden: User "system:serviceaccount:x:y" cannot patch resource "nodes" in '
            'API group "" at the cluster scope',
            "patch nodes",
        ),
        (
            '403: jobs.batch "a" is forbidden: User "u" cannot get resource "jobs" in API group "batch" in '
            'the namespace "default"',
            "get jobs batch",
        ),
        ("422: annotations are too long", ""),
    ],
    ids=["core", "of a group", "another refusal"],
)
def test_verb_and_resource(message: str, wanted: str) -> None:
    assert missing_permission(message) == wanted


def test_one_object_of_a_kind_is_tried_at_a_time() -> None:
    now, rig = 0.0, Rig()
    refusals = Refusals(rig.telemetry, lambda: now)
    bert, elsewhere = JOBS
    assert refusals.refusal(bert) is None
    assert refusals.add(bert, RefusedError("403", cannot("patch")))
    assert refusals.refusal(bert) is not None
    assert refusals.refusal(elsewhere) is None, "a role may be of one namespace alone"
    now = RETRY_S
    assert refusals.refusal(bert) is None
    assert refusals.refusal(bert) is not None, "the answer is not there yet"
    assert not refusals.add(bert, RefusedError("403", cannot("patch")))
    assert 2 * RETRY_S < 60, "one is tried, then all others"


def test_a_permission_is_one_condition_until_it_is_there_everywhere() -> None:
    rig = Rig()
    refusals = Refusals(rig.telemetry, lambda: 0.0)
    for one in JOBS:
        refusals.add(one, RefusedError("403", cannot("patch")))
    assert rig.telemetry.conditions.keys() == {("permission_missing", "patch mpijobs kubeflow.org")}
    refusals.allowed(JOBS[0], "get")
    refusals.allowed(JOBS[0], "patch")
    assert rig.telemetry.conditions
    refusals.allowed(JOBS[1], "patch")
    assert rig.telemetry.conditions == {}


def test_get_that_is_given_may_be_followed_by_patch_that_is_not() -> None:
    rig = Rig()
    refusals = Refusals(rig.telemetry, lambda: 0.0)
    assert refusals.add(JOBS[0], ForbiddenKindError(cannot("get")))
    assert rig.telemetry.conditions.keys() == {("kind_forbidden", "get mpijobs kubeflow.org")}
    assert refusals.add(JOBS[0], RefusedError("403", cannot("patch")))
    assert rig.telemetry.conditions.keys() == {("permission_missing", "patch mpijobs kubeflow.org")}
    refusals.forget()
    assert rig.telemetry.conditions == {}
