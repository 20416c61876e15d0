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
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from tests.support.servers.missing import ServerMissingError

SERVER_FIXTURES = {
    "kafka_server": "kafka",
    "secure_kafka_server": "kafka",
    "postgres_server": "postgres",
    "prometheus": "prometheus",
    "kube_server": "kube",
}
"""The mark of a test that uses the fixture, directly or through another one."""

_STARTS = (
    *(subprocess.Popen, subprocess.run, subprocess.call, subprocess.check_call, subprocess.check_output),
    *(asyncio.create_subprocess_exec, asyncio.create_subprocess_shell, os.fork),
)
_ENDS = {id(thing): "program" for thing in _STARTS} | {id(ServerMissingError): "tool"}
"""What names are followed to: what starts a program, and what says that there is none."""
_LONG_FOLDERS = ("e2e/kube", "faults", "e2e", "docs", "bench", "simulation", "conformance")
"""Their tests take the longest: they come first, so that no worker is left alone with them at the end."""


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


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its servers, its target and its group, and put the longest first."""
    turns: dict[pytest.Item, tuple[bool, int]] = {}
    for item in items:
        for fixture in sorted(SERVER_FIXTURES.keys() & set(getattr(item, "fixturenames", ()))):
            item.add_marker(SERVER_FIXTURES[fixture])
        marks = {mark.name for mark in item.iter_markers()}
        served = not marks.isdisjoint(SERVER_FIXTURES.values())
        reached = frozenset[str]().union(*map(reach, _functions_of_test(item)))
        if served or "tool" in reached:
            item.add_marker("tool")
        quick = "quick" in marks or not (served or reached or marks & {"slow", "soak"})
        if quick:
            item.add_marker("quick")
        if group := group_of(item, "kube" if "kube" in marks else served, quick):
            item.add_marker(pytest.mark.xdist_group(group))
        # Tests with servers come first, which mostly wait; then those of folders that take long.
        folders = [number for number, folder in enumerate(_LONG_FOLDERS) if f"tests/{folder}/" in item.nodeid]
        turns[item] = (not served, min(folders, default=len(_LONG_FOLDERS)))
    items.sort(key=turns.__getitem__)


def group_of(item: pytest.Item, served: bool | str, quick: bool) -> str | None:
    """Tests of a group run one after another in one worker; a test without one runs anywhere.

    A file whose tests use a server, or share what is made for the module, is a group: each worker has
    servers of its own, which start when its first test wants them. So are those of a folder that share what
    its conftest makes for the session. The Kubernetes API server is the dearest: its tests of a whole folder,
    such as tests/deploy, are a group, so that fewer workers have one. The ``quick`` tests of a file are one
    too: dealing out thousands of tests one by one costs more than many of them. ``served``: whether the test
    uses a server; "kube" for that one.
    """
    if served == "kube":
        return f"kube of {'/'.join(item.location[0].split('/')[:2])}"
    fixtures = [fixture[-1] for fixture in _fixtures(item).values()]
    for fixture in fixtures:
        if fixture.scope == "session" and fixture.baseid.startswith("tests/"):
            return fixture.baseid
    shares = any(fixture.scope in ("module", "class") for fixture in fixtures)
    return item.location[0] if served or shares or quick else None


def _fixtures(item: pytest.Item) -> Mapping[str, Sequence[pytest.FixtureDef[Any]]]:
    return item._fixtureinfo.name2fixturedefs if isinstance(item, pytest.Function) else {}


def _functions_of_test(item: pytest.Item) -> Iterator[FunctionType]:
    """The test itself and its fixtures."""
    if isinstance(item, pytest.Function):
        # Hypothesis puts its own function in place of the test's.
        yield from _functions(getattr(getattr(item.obj, "hypothesis", None), "inner_test", item.obj))
    for fixtures in _fixtures(item).values():
        for fixture in fixtures:
            yield from _functions(fixture.func)


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
