"""Tells tensor use of peak: what share of their quoted peak the tensor cores of a GPU reach (OFU).

Tensor activity times the SM clock, by the clock at which the maker quotes the peak (arXiv 2605.20799). It
needs no count of operations, and is no MFU: padding of tiles and what is computed again count as work, and
operations beside the tensor cores do not. It is a share of the peak of the precision in use, without
sparsity.
"""

from typing import NamedTuple


class _Peak(NamedTuple):
    """Describes a product by ``words`` of its name, and the peak of its datasheet: dense bf16 or fp16, in
    10^12 operations a second, of ``sms`` multiprocessors with so many operations a clock each."""

    words: tuple[str, ...]
    tera: float
    sms: int
    a_clock: int

    @property
    def mhz(self) -> float:
        """Return the clock at which that peak is reached, in MHz."""
        return 1e6 * self.tera / (self.sms * self.a_clock)


_PEAKS = (
    _Peak(("H200", "NVL"), 835.5, 132, 4096),
    _Peak(("H200",), 989.4, 132, 4096),
    _Peak(("GH200",), 989.4, 132, 4096),
    _Peak(("H100", "NVL"), 835.5, 132, 4096),
    _Peak(("H100", "PCIe"), 756, 114, 4096),
    _Peak(("H100", "HBM3"), 989.4, 132, 4096),
    _Peak(("H100", "SXM5"), 989.4, 132, 4096),
    _Peak(("A100",), 311.9, 108, 2048),
    _Peak(("A30",), 165, 56, 2048),
    _Peak(("A10",), 125, 72, 1024),
    _Peak(("L4",), 121, 58, 1024),
    _Peak(("L40S",), 362, 142, 1024),
    _Peak(("T4",), 65, 40, 1024),
    _Peak(("V100", "SXM2"), 125, 80, 1024),
    _Peak(("V100", "PCIE"), 112, 80, 1024),
)
"""The first that fits counts. NVML's names: "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "Tesla T4". Of
others nothing is said: on Blackwell the tensor cores may have a clock of their own."""


def peak_mhz(model: str | None) -> float | None:
    """Give the SM clock at which the peak of a GPU is quoted; None for a model that is not known."""
    parts = (model or "").upper().replace("-", " ").split()
    return next((peak.mhz for peak in _PEAKS if all(word.upper() in parts for word in peak.words)), None)


def tensor_of_peak_pct(
    model: str | None, tensor_active_pct: float | None, sm_clock_mhz: float | None
) -> float | None:
    """Give the percent of the peak; None where model, activity or clock is not known."""
    clock = peak_mhz(model)
    if clock is None or tensor_active_pct is None or sm_clock_mhz is None:
        return None
    return tensor_active_pct * sm_clock_mhz / clock
