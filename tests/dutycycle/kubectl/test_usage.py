"""``kubectl dutycycle``: names, flags and settings as they are given, on the real API server."""

import pytest

from dutycycle.kubectl.complete import candidates
from tests.support.kubectl.plugin_user import User

SPOILT = {
    "DUTYCYCLE_INTERVAL": "bad",
    "DUTYCYCLE_TLS_CA": "/nowhere",
    "DUTYCYCLE_SASL_MECHANISM": "PLAIN",
    "DUTYCYCLE_RECORDS": "bad",
}


@pytest.mark.parametrize("word", ["", "pod/", "pods/", "po/", "Pod/"])
def test_a_pod_is_named_as_with_kubectl(user: User, pods: str, word: str) -> None:
    assert user.lines("why", f"{word}busy", "-n", pods)[0] == ["pod", f"{pods}/busy"]
    for arguments in ((f"{word}busy", "-n", pods), ("-n", pods, f"{word}busy")):
        _, *rows = user.lines("top", "pods", *arguments)
        assert [row[0] for row in rows] == ["busy"]
    assert user.completes("top", "pods", "-n", pods, "b") == ["busy"]


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (["why", "busy?x=1"], 1, 'pods "busy?x=1" not found'),
        (["why", "busy#x"], 1, 'pods "busy#x" not found'),
        (["why", "../pods/busy"], 2, "unknown kind '../pods': "),
        (["why", "job/busy"], 1, "there is no job busy in namespace "),
        (["why", "/busy"], 2, "expected a pod's name, such as "),
        (["peaks", "po/busy"], 2, "po/busy is a pod, and no job: see `kubectl dutycycle why busy`"),
        (["top", "pods", "job/busy"], 2, "expected a pod's name, such as "),
        (["top", "pods", "plain"], 1, "pod/plain carries no dutycycle.io/ annotation"),
        (["top", "pods", "nope"], 1, 'pods "nope" not found'),
        (["top", "pods", "busy", "-A"], 2, "a name stands without --selector and --all-namespaces"),
        (["top", "pods", "busy", "-l", "a=b"], 2, "a name stands without --selector and --all-namespaces"),
        (["top", "pods", "busy", "idle"], 2, "unrecognized arguments: idle"),
        (["top", "pods", "--as-group", "x"], 2, "--as-group needs --as"),
        (["why", "pod/"], 2, "expected a pod's name, such as "),
        (["why", ""], 2, "expected a pod's name, such as "),
        (["why", ".."], 2, "'..' can be no name"),
        (["why", "%2e%2e"], 2, "'%2e%2e' can be no name"),
        (["peaks", "job/.."], 2, "'..' can be no name"),
        (["peaks", "busy?x=1"], 1, "there is no job busy?x=1"),
        (["top", "pods", "-n", ".."], 2, "'..' can be no name"),
        (["top", "pods", "-n", "a/b"], 2, "'a/b' can be no name"),
        (["why", "busy", "--prefix", "bad prefix/"], 2,
         "argument --prefix: expected a DNS name in lower case"),
        (["why", "busy", "--records", "foo"], 2,
         "argument --records: expected sqlite:///path/records.db or "),
        (["top", "pods", "-l", "app=none"], 0, "no pods in namespace {} with the labels app=none\n"),
        (["top", "jobs"], 0, "no jobs in namespace {}\n"),
        (["peaks", "nope"], 1, "there is no job nope of any kind that is known in namespace {}"),
        (["peaks", "foo/nope"], 2, "unknown kind 'foo': expected one of job, mpijob, "),
        (["why", "nope"], 1, 'pods "nope" not found'),
        (["top", "pods", "--kubeconfig", "/nowhere"], 1, "no access to a cluster: /nowhere: no such file"),
        (["top", "pods", "--context", "nowhere"], 1, "there is no context nowhere in it: it has "),
        (["top", "everything"], 2, "invalid choice: 'everything'"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_is_said(
    user: User, pods: str, arguments: list[str], status: int, says: str
) -> None:
    found, stdout, stderr = user.run(*arguments, *(["-n", pods] if "-n" not in arguments else []))
    assert (found, stdout) == (status, "")
    assert says.format(pods) in stderr
    assert "Traceback" not in stderr


def test_settings_that_are_not_used_do_not_stop_it(user: User, pods: str) -> None:
    user.env |= SPOILT
    assert len(user.lines("top", "pods", "-n", pods)) == 3
    status, _, stderr = user.run("why", "busy", "-n", pods)
    assert (status, "DUTYCYCLE_RECORDS=…: expected sqlite:///path" in stderr) == (2, True)
    user.env |= {"DUTYCYCLE_ANNOTATION_PREFIX": "bad prefix/"}
    status, _, stderr = user.run("top", "pods", "-n", pods)
    assert (status, "DUTYCYCLE_ANNOTATION_PREFIX='bad prefix/': expected a DNS name" in stderr) == (2, True)
    assert len(user.lines("top", "pods", "-n", pods, "--prefix", "dutycycle.io")) == 3


def test_completion_does_not_tell_of_a_flag_that_is_wrong(capfd: pytest.CaptureFixture[str]) -> None:
    assert candidates(["why", "--prefix", "bad prefix/", ""]) == []
    assert candidates(["why", "--output", "bad", ""]) == []
    assert tuple(capfd.readouterr()) == ("", "")
