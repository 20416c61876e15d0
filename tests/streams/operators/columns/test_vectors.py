"""Sorting and copying within kernels, beside numpy's; no loop has numba's own, which compile for long."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streams
from streams.operators.columns import vectors
from streams.operators.columns.arrays import Floats


def python(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """The loop as Python runs it: only entries can be called compiled."""
    interpreted: Callable[..., Any] = getattr(kernel, "py_func", kernel)
    return interpreted


def samples() -> Iterator[Floats]:
    """Many equal numbers and different ones, infinite ones too; of each size around the gaps."""
    random = np.random.default_rng(4)
    for size in (0, 1, 2, 3, 4, 5, 9, 10, 11, 22, 24, 60, 131, 133, 400, 1800):
        yield random.integers(0, 5, size).astype(float)
        yield random.normal(size=size)
        yield np.sort(random.normal(size=size))[::-1].copy()
        yield random.choice([0.0, 1.5, np.inf, -np.inf], size)


def with_absent(values: Floats) -> Floats:
    return np.where(np.random.default_rng(len(values)).random(len(values)) < 0.3, np.nan, values)


@pytest.mark.parametrize("absent", [False, True])
def test_numbers_are_sorted_as_by_numpy_and_nan_is_last(absent: bool) -> None:
    for values in samples():
        mixed = with_absent(values) if absent else values
        expected = np.sort(mixed)
        python(vectors.sort)(mixed)
        np.testing.assert_array_equal(mixed, expected)


def test_what_is_known_is_sorted_and_the_values_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "sort", python(vectors.sort))
    for values in samples():
        mixed = with_absent(values)
        before = mixed.copy()
        known = python(vectors.sorted_known)(mixed)
        np.testing.assert_array_equal(known, np.sort(mixed[~np.isnan(mixed)]))
        np.testing.assert_array_equal(mixed, before)


def test_of_equal_numbers_the_first_comes_first() -> None:
    for values in samples():
        order = python(vectors.order_of)(values)
        np.testing.assert_array_equal(order, np.argsort(values, kind="stable"))


def test_a_part_of_an_array_moves_to_its_front() -> None:
    values = np.arange(10.0)
    python(vectors.copy_into)(values, values[7:])
    np.testing.assert_array_equal(values, [7, 8, 9, 3, 4, 5, 6, 7, 8, 9])


def test_the_largest_value_is_unknown_where_one_is() -> None:
    for values in samples():
        if values.size:
            assert python(vectors.largest)(values) == values.max()
            assert np.isnan(python(vectors.largest)(np.append(values, np.nan)))
            assert np.isnan(python(vectors.largest)(np.append(np.nan, values)))


def test_no_loop_compiles_a_sort_of_numba() -> None:
    """Each process that compiles one pays a second for it."""
    sorts = [
        f"{file.name}:{call.lineno} {ast.unparse(call)}"
        for file in Path(streams.__file__).parent.rglob("*.py")
        for function in ast.walk(ast.parse(file.read_text()))
        if isinstance(function, ast.FunctionDef)
        and any(ast.unparse(mark).split("(")[0] in ("kernel", "entry") for mark in function.decorator_list)
        for call in ast.walk(function)
        if isinstance(call, ast.Call) and ast.unparse(call.func).split(".")[-1] in ("sort", "argsort")
        and "." in ast.unparse(call.func)
    ]  # fmt: skip
    assert not sorts
