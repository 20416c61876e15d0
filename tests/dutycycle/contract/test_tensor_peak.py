"""Tensor use of peak: by activity and clock, of models whose quoted peak is known."""

import pytest

from dutycycle.contract.tensor_peak import peak_mhz, tensor_of_peak_pct


@pytest.mark.parametrize(
    ("model", "mhz"),
    [
        # Clocks for tensor cores in NVIDIA's papers: H100 1830 and 1620 MHz, A100 1410, T4 1590, V100 1530.
        ("NVIDIA H100 80GB HBM3", 1830),
        ("NVIDIA H200", 1830),
        ("NVIDIA GH200 480GB", 1830),
        ("NVIDIA H100 PCIe", 1620),
        ("NVIDIA A100-SXM4-80GB", 1410),
        ("NVIDIA A100 80GB PCIe", 1410),
        ("NVIDIA A30", 1440),
        ("NVIDIA A10", 1695),
        ("NVIDIA L4", 2040),
        ("Tesla T4", 1590),
        ("Tesla V100-SXM2-16GB", 1530),
        ("Tesla V100-PCIE-32GB", 1380),
    ],
)
def test_the_clock_of_the_peak_is_the_makers(model: str, mhz: float) -> None:
    assert peak_mhz(model) == pytest.approx(mhz, rel=0.01)


@pytest.mark.parametrize(
    "model", [None, "", "NVIDIA B200", "NVIDIA A100X", "NVIDIA L400", "H100", "AMD MI300X"]
)
def test_of_other_models_nothing_is_said(model: str | None) -> None:
    assert peak_mhz(model) is None
    assert tensor_of_peak_pct(model, 50, 1500) is None


def test_a_lower_clock_is_less_of_the_peak() -> None:
    model = "NVIDIA H100 80GB HBM3"
    assert tensor_of_peak_pct(model, 60, 1830) == pytest.approx(60, abs=0.1)
    assert tensor_of_peak_pct(model, 60, 915) == pytest.approx(30, abs=0.1)
    assert tensor_of_peak_pct(model, 0, 915) == 0
    assert tensor_of_peak_pct(model, None, 915) is None
    assert tensor_of_peak_pct(model, 60, None) is None
