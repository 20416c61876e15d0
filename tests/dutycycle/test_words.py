"""Figures in words."""

import pytest

from dutycycle.words import bytes_text, of_bytes, short_duration

GIB = 1024**3
WORDS = [(5, "5s"), (95, "1m35s"), (300, "5m"), (7260, "2h01m"), (200_000, "2d07h")]


@pytest.mark.parametrize(("seconds", "text"), WORDS)
def test_durations(seconds: float, text: str) -> None:
    assert short_duration(seconds) == text


BYTES = [(None, "·"), (0, "0 MiB"), (5 * 1024**2, "5 MiB"), (1.5 * GIB, "1.5 GiB")]


@pytest.mark.parametrize(("value", "text"), BYTES)
def test_amounts(value: float | None, text: str) -> None:
    assert bytes_text(value) == text


def test_an_amount_of_a_total() -> None:
    assert of_bytes(3 * GIB, 8 * GIB) == "3.0 of 8.0 GiB"
    assert of_bytes(5 * 1024**2, 8 * GIB) == "5 MiB of 8.0 GiB"
    assert (of_bytes(None, 8 * GIB), of_bytes(GIB, None)) == ("· of 8.0 GiB", "1.0 GiB")
