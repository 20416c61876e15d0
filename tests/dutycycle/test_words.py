"""Figures in words."""

import pytest

from dutycycle.words import bytes_text, digits, evidence_figures, named_figure, of_bytes, short_duration

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


@pytest.mark.parametrize(
    ("value", "text"),
    [(2160, "2160"), (123456, "123000"), (3.4096, "3.41"), (0.25, "0.25"), (0, "0"), (999.6, "1000")],
)
def test_digits_are_no_powers_of_ten(value: float, text: str) -> None:
    assert digits(value) == text


def test_what_decides_a_verdict_is_told_first() -> None:
    """A list that is cut off still says why."""
    common = {
        "gpu_util_pct": 100.0, "mem_copy_util_pct": 5.0, "gpu_mem_pct": 80.0, "power_w": 400.0, "gpus": 1.0,
    }  # fmt: skip
    names = [
        name for name, _ in evidence_figures(common | {"throttled_heat_pct": 100.0, "sm_active_pct": 12.0})
    ]
    assert names == [
        "throttled heat", "GPU util", "sm active", "GPU mem", "memory copy util", "power", "GPUs",
    ]  # fmt: skip


def test_a_large_figure_of_evidence_is_readable() -> None:
    assert named_figure("power_w", 20600) == ("power", "20600 W")
    assert named_figure("samples_per_s", 51234.0) == ("samples", "51230 a second")
