"""The list of deliberate faults is one of the code and the tests as they are."""

import pytest

from tests.mutations.__main__ import ROOT, Fault, mutated, read_faults


@pytest.mark.parametrize("fault", read_faults(), ids=lambda fault: f"{fault.source}: {fault.after}")
def test_a_fault_can_be_made_and_its_tests_are_there(fault: Fault) -> None:
    text = mutated((ROOT / fault.source).read_text(), fault)
    if fault.source.endswith(".py"):
        compile(text, fault.source, "exec")
    assert all((ROOT / "tests" / name).exists() for name in fault.tests.split())


@pytest.mark.parametrize("text", ["nothing", "twice twice"])
def test_a_line_that_is_not_there_once_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=r"a\.py has 'twice'"):
        mutated(text, Fault("a.py", "twice", "", ""))
