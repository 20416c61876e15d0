"""The list of deliberate faults. What code that has changed made of a row, the command says, and no test."""

import pytest

from tests.mutations.__main__ import ROOT, Fault, mutated, read_faults


@pytest.mark.parametrize("fault", read_faults(), ids=lambda fault: f"{fault.source}: {fault.after}")
def test_a_fault_is_python_and_its_files_are_there(fault: Fault) -> None:
    text = (ROOT / fault.source).read_text()
    if fault.source.endswith(".py") and text.count(fault.before) == 1:
        compile(mutated(text, fault), fault.source, "exec")
    assert all((ROOT / "tests" / name).exists() for name in fault.tests.split())


@pytest.mark.parametrize("text", ["nothing", "twice twice"])
def test_a_line_that_is_not_there_once_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"a\.py has 'twice'"):
        mutated(text, Fault("a.py", "twice", "", ""))
