"""What a test calls decides what it needs: which target runs it, and with which tests it shares a worker."""

import subprocess
import sys

import pytest

from tests.support.servers.missing import program

PYTHON = [sys.executable, "-c", ""]


def direct() -> None:
    subprocess.run(PYTHON, check=True)


MARKS = {"quick", "slow", "tool", "kafka", "postgres"}


@pytest.fixture
def marks(request: pytest.FixtureRequest) -> set[str]:
    """The marks of the test that asks."""
    return MARKS & {mark.name for mark in request.node.iter_markers()}


@pytest.fixture
def started() -> None:
    direct()


def test_a_test_that_starts_nothing_is_quick(marks: set[str]) -> None:
    assert marks == {"quick"}


@pytest.mark.slow
def test_a_slow_one_is_not(marks: set[str]) -> None:
    assert marks == {"slow"}


@pytest.mark.usefixtures("started")
def test_one_whose_fixture_starts_a_program_is_not(marks: set[str]) -> None:
    assert marks == set()


@pytest.mark.quick
def test_one_that_starts_a_program_may_be_let_in(marks: set[str]) -> None:
    direct()
    assert marks == {"quick"}


def test_one_that_looks_for_a_tool_may_be_left_out(marks: set[str]) -> None:
    assert program("sh")
    assert marks == {"tool"}


@pytest.mark.usefixtures("records_url")
def test_an_example_with_a_server_is_not_quick_and_the_others_are(
    marks: set[str], request: pytest.FixtureRequest
) -> None:
    served = request.node.callspec.params["records_url"] == "postgresql"
    assert marks == ({"postgres", "tool"} if served else {"quick"})
    assert [mark.args for mark in request.node.iter_markers("xdist_group")] == [
        ("tests/servers/test_targets.py",)
    ]


def test_a_quick_test_that_finds_no_tool_fails(pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ("tests.support.targets", "tests.support.servers.plugin")')
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function\n")
    pytester.makepyfile(
        """
        import pytest
        from tests.support.servers.missing import ServerMissingError

        def test_that_is_quick():
            raise ServerMissingError("cc is not installed")

        @pytest.mark.slow
        def test_that_is_not():
            raise ServerMissingError("cc is not installed")
        """
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("CI", raising=False)
        outcome = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    outcome.assert_outcomes(failed=1, skipped=1)
    outcome.stdout.fnmatch_lines(["*marked quick needs what not every machine has: cc is not installed*"])
