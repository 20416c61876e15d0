"""What the API server's words about a missing permission come to."""

import pytest

from sinks.annotations.forbidden import missing_permission


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
