"""The examples in the docstrings of operators are true."""

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in sorted((ROOT / "streams/operators").rglob("*.py"))
    if ">>> " in path.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_an_example_gives_what_it_says(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried > 0
    assert failed == 0
