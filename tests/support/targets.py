"""Which tests ``make test`` runs, and which tests have to share a worker of xdist.

Two marks are set by what a test calls: its own code, its fixtures, and the code of tests/ and bench/ that
these name.

=========  ===================================================================================
``quick``  nothing of it starts a program: ``make test`` runs it, the same on every machine
``tool``   it may raise ``ServerMissingError``: it needs what not every machine has
=========  ===================================================================================

By hand, ``quick`` lets in a test that starts Python, and ``slow`` keeps one out that takes seconds.
"""

import asyncio
import gc
import inspect
import os
import subprocess
from collections.abc import Callable, Generator, Iterable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import pytest
from _pytest.mark import ParameterSet

from tests.support.servers.missing import ServerMissingError

SERVER_FIXTURES = {
    "kafka_server": "kafka", "secure_kafka_server": "kafka", "postgres_server": "postgres",
    "prometheus": "prometheus", "kube_server": "kube",
}  # fmt: skip
"""The mark of a test that uses the fixture, directly or through another one."""
PHASES = ("kube", "kafka", "postgres", "prometheus")
"""Marks in the order in which tests with them run, the dearest server first; those with none of them are the
last. A server whose phase is over for a worker is stopped: one that nobody uses takes 2 % of a core."""
PHASE = pytest.StashKey[int]()
"""The phase of a test and of its group, by its place in ``PHASES``."""

_STARTS = (
    *(subprocess.Popen, subprocess.run, subprocess.call, subprocess.check_call, subprocess.check_output),
    *(asyncio.create_subprocess_exec, asyncio.create_subprocess_shell, os.fork),
)
_ENDS = {id(thing): "program" for thing in _STARTS} | {id(ServerMissingError): "tool"}
"""What names are followed to: what starts a program, and what says that there is none."""
_LONG_FOLDERS = [
    f"tests/{folder}/"
    for folder in ("e2e/kube", "faults", "e2e", "docs", "bench", "simulation", "conformance")
]
"""Their tests take the longest: they come first, so that no worker is left alone with them at the end."""
_FIRST_OF_GROUPS = ("test_p", "test_tr")
"""With the first file of tests/e2e whose name is not before these, another group on the API server begins."""
_NEVER_QUICK = ("tests/e2e/kube", "tests/faults")
"""All their tests start programs."""


def slow_after(quick: int, values: Iterable[Any]) -> list[ParameterSet]:
    """Parameters of a test that takes seconds with each: all but the first few are slow."""
    return [
        pytest.param(value, marks=[pytest.mark.slow] if number >= quick else [])
        for number, value in enumerate(values)
    ]


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules and thousands of tests stay to the end: the garbage collector need not look at them again and
    again, neither while they are made nor while the tests run."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether a folder need not be imported to know that ``make test`` runs nothing of it."""
    if config.option.markexpr == "quick" and collection_path.as_posix().endswith(_NEVER_QUICK):
        return True
    return None


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its servers, its target and its group, and order them by phase, the longest first."""
    turns: dict[pytest.Item, int] = {}
    groups: dict[pytest.Item, str] = {}
    phases: dict[str, int] = {}
    needs: dict[int, Needs] = {}
    for item in items:
        info = id(getattr(item, "_fixtureinfo", item))  # all cases of a test have one
        need = needs[info] = needs.get(info) or needs_of(item)
        for server in need.servers:
            item.add_marker(server)
        marks = {mark.name for mark in item.iter_markers()}
        served = not marks.isdisjoint(SERVER_FIXTURES.values())
        if served or "tool" in need.reached:
            item.add_marker("tool")
        quick = "quick" in marks or not (served or need.reached or marks & {"slow", "soak"})
        file = item.nodeid.partition("::")[0]
        if quick:
            item.add_marker("quick")
            if file.startswith(_NEVER_QUICK):
                raise pytest.UsageError(
                    f"{item.nodeid} is quick, but make test does not look into its folder"
                )
        group = group_on_kube(file) if "kube" in marks else need.shared
        if group or served or need.shares or quick:
            group = group or file
            item.add_marker(pytest.mark.xdist_group(group))
        item.stash[PHASE] = min((at for at, mark in enumerate(PHASES) if mark in marks), default=len(PHASES))
        groups[item] = name = group or item.nodeid
        phases[name] = min(item.stash[PHASE], phases.get(name, len(PHASES)))
        folders = [number for number, folder in enumerate(_LONG_FOLDERS) if file.startswith(folder)]
        turns[item] = min(folders, default=len(_LONG_FOLDERS))
    for item, name in groups.items():  # a group runs as a whole
        item.stash[PHASE] = phases[name]
    items.sort(key=lambda item: (item.stash[PHASE], turns[item]))


def group_on_kube(file: str) -> str:
    """Name the group of a file whose tests use the Kubernetes API server.

    It is the dearest of the servers, so the files of a folder share one. Those of tests/e2e wait for twelve
    minutes one after another, with nothing beside them, and all else is done sooner: they are three groups of
    four minutes.
    """
    folder, name = "/".join(file.split("/")[:2]), file.rpartition("/")[2]
    begun = [first for first in _FIRST_OF_GROUPS if name >= first] if folder == "tests/e2e" else []
    return f"kube of {folder}{f' from {begun[-1]} on' if begun else ''}"


class Needs(NamedTuple):
    """What all cases of a test have in common: marks of its servers, what it reaches, and what it shares.

    Tests of a group run one after another in one worker; a test without one runs anywhere. A file whose tests
    use a server, or share what is made for the module, is a group: each worker has servers of its own, which
    start when its first test wants them. So are those of a folder that share what its conftest makes for the
    session, and those of a folder that use the Kubernetes API server (``group_on_kube``). The
    ``quick`` tests of a file are one too: dealing out thousands of tests one by one costs more than many of
    them.
    """

    servers: list[str]
    reached: frozenset[str]
    shared: str | None
    """The folder whose conftest makes something for the session."""
    shares: bool
    """Whether something is made for its module."""


def needs_of(item: pytest.Item) -> Needs:
    """What a test and its fixtures need."""
    if not isinstance(item, pytest.Function):
        return Needs([], frozenset(), None, shares=False)
    fixtures = [fixtures[-1] for fixtures in item._fixtureinfo.name2fixturedefs.values()]
    # Hypothesis puts its own function in place of the test's.
    test = getattr(getattr(item.function, "hypothesis", None), "inner_test", item.function)
    of_session = [fixture.baseid for fixture in fixtures if fixture.scope == "session"]
    return Needs(
        [SERVER_FIXTURES[name] for name in sorted(SERVER_FIXTURES.keys() & set(item.fixturenames))],
        frozenset[str]().union(
            *(
                _reach_of(callable_)
                for callable_ in (test, *(fixture.func for fixture in _all_fixtures(item)))
            )
        ),
        next((folder for folder in of_session if folder.startswith("tests/")), None),
        any(fixture.scope in ("module", "class") for fixture in fixtures),
    )


def _all_fixtures(item: pytest.Function) -> Iterator[pytest.FixtureDef[Any]]:
    for fixtures in item._fixtureinfo.name2fixturedefs.values():
        yield from fixtures


@cache
def _reach_of(callable_: Callable[..., object]) -> frozenset[str]:
    return frozenset[str]().union(*map(reach, _functions(callable_)))


@cache
def reach(function: FunctionType) -> frozenset[str]:
    """Which of ``program`` and ``tool`` are reached by names, through the code of tests/ and bench/.

    The code of the product is not followed: it starts what its caller names, and hardly a test has it do so.
    """
    ends, seen, waiting = set[str](), {function}, [function]
    while waiting:
        here, named = _step(waiting.pop())
        ends |= here
        waiting += named - seen
        seen |= named
    return frozenset(ends)


@cache
def _step(function: FunctionType) -> tuple[frozenset[str], frozenset[FunctionType]]:
    """What a function itself reaches, and our functions that it names."""
    named = list(_named(function))
    ends = frozenset(end for thing in named if (end := _ENDS.get(id(thing))))
    return ends, frozenset(called for thing in named for called in _functions(thing))


def _named(function: FunctionType) -> Iterator[object]:
    """The globals that its code names, and of modules among them what it names in these."""
    names = set(_names(function.__code__))
    for name in names & function.__globals__.keys():
        thing = function.__globals__[name]
        yield thing
        if isinstance(thing, ModuleType):
            yield from (vars(thing)[attribute] for attribute in names & vars(thing).keys())


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _functions(thing: object) -> Iterator[FunctionType]:
    """Our functions in it: itself, or the methods and properties of a class and those above it."""
    if not callable(thing):
        return
    thing = inspect.unwrap(thing)
    thing = getattr(thing, "__func__", thing)
    if isinstance(thing, FunctionType):
        if _is_ours(thing):
            yield thing
    elif inspect.isclass(thing):
        for base in thing.__mro__:
            if _is_ours(base):
                for member in vars(base).values():
                    yield from _functions(getattr(member, "fget", None) or getattr(member, "func", member))


def _is_ours(thing: FunctionType | type) -> bool:
    """Whether it is of tests/ or bench/. Some classes of compiled modules have no module."""
    return str(thing.__module__).startswith(("tests.", "bench."))
