"""Goal: the published contract is what the code does: its tables, its examples, its meanings."""

from dataclasses import fields
from typing import Any

import pytest

from docs.contract_meanings import COMMON, OWN, meaning
from docs.generate_contract import PAGE, page, records
from dutycycle.contract.records.base import VersionedRecord
from dutycycle.contract.records.deadletter import Reason
from dutycycle.contract.settings.groups import PREFIX, Settings
from dutycycle.contract.topics import TOPICS

RECORDS = records()
TEXT = page()


def named(record: Any) -> set[str]:
    """The fields of a record, with its version where it has one."""
    return {*record.__struct_fields__} | ({"v"} if issubclass(record, VersionedRecord) else set())


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == TEXT, "run: python -m docs.generate_contract"


@pytest.mark.parametrize("record", RECORDS)
def test_every_field_has_a_meaning_and_the_page_a_table(record: str) -> None:
    assert f"### {record}\n" in TEXT
    for field in named(RECORDS[record]):
        assert f"| `{field}` |" in TEXT
        assert meaning(record, field)


def test_no_meaning_is_left_over() -> None:
    known = {name: named(record) for name, record in RECORDS.items()}
    assert OWN.keys() <= known.keys()
    for record, texts in OWN.items():
        assert texts.keys() <= known[record], record
    used = {field for record, names in known.items() for field in names - OWN.get(record, {}).keys()}
    assert COMMON.keys() == used


def test_every_topic_setting_and_reason_is_on_the_page() -> None:
    shown = [f"`{topic}`" for topic in TOPICS]
    shown += [f"`{PREFIX}{field.name.upper()}`" for field in fields(Settings)]
    shown += [f"`{reason}`" for reason in Reason]
    assert [name for name in shown if f"| {name} |" not in TEXT] == []
    assert "{{" not in TEXT
