"""``kubectl dutycycle`` where the API server fails at one kind, as where its conversion webhook is away."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fakes.api_server import FakeApi, fake_api_server
from tests.support.kubectl.plugin_user import User
from tests.support.servers.kube.client import kubeconfig

JOBS, MPIJOBS = (
    f"/apis/{kinds[0]}/namespaces/default/{kinds[1]}"
    for kinds in (("batch/v1", "jobs"), ("kubeflow.org/v2beta1", "mpijobs"))
)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server that has a Job, and lists no MPIJobs."""
    with fake_api_server() as server:
        server.groups["/apis/batch/v1"] = [("Job", "jobs", True)]
        server.add(f"{JOBS}/bert", "uid-1", dutycycle__io="x")["annotations"] = {
            "dutycycle.io/bert-0": '{"cpu_util":7}'
        }
        server.refused |= {MPIJOBS: 500, f"{MPIJOBS}/bert": 500, f"{MPIJOBS}/gone": 500}
        yield server


@pytest.fixture
def user(api: FakeApi, tmp_path: Path) -> User:
    return User(kubeconfig(tmp_path / "kubeconfig", api.url))


def test_the_others_are_listed_and_what_is_left_out_is_said(user: User) -> None:
    status, out, err = user.run("top", "jobs", "-n", "default")
    assert status == 0, err
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [["bert", "Job"]]
    assert f"left out: cannot list mpijobs.kubeflow.org in namespace default: {MPIJOBS} is not for" in err


def test_one_of_another_kind_is_found_by_its_name_alone(user: User) -> None:
    status, out, err = user.run("peaks", "bert", "-n", "default")
    assert (status, out.splitlines()[1].split()[0]) == (0, "bert-0"), err


def test_where_nothing_can_be_read_that_is_the_answer(api: FakeApi, user: User) -> None:
    status, _, err = user.run("peaks", "gone", "-n", "default")
    assert status == 1
    assert "cannot get mpijobs.kubeflow.org in namespace default" in err
    api.refused[JOBS] = 500
    status, out, err = user.run("top", "jobs", "-n", "default")
    assert (status, out) == (1, "")
    assert "cannot list jobs.batch in namespace default" in err
