"""Leaves out of a measurement what is more than its host has: counters of kernels leap. Pure."""

from typing import TypeVar

from msgspec.structs import replace

from dutycycle.contract.records.samples import Container, Host

_Part = TypeVar("_Part", Container, Host)
_MOST_OF_CPU = 2.0
"""Of all cores: two readings are not exactly as far apart as what they measure."""


def within_host(part: _Part, host: Host) -> tuple[_Part, dict[str, float]]:
    """Return a container, or the host itself, without CPU time and memory that are more than the host has,
    and those values by field."""
    left_out: dict[str, float] = {}
    cpu_pct, used = part.cpu_util_pct, part.mem_used_bytes
    if cpu_pct is not None and host.cpu_count and cpu_pct > _MOST_OF_CPU * 100 * host.cpu_count:
        left_out["cpu_util_pct"] = cpu_pct
    if used is not None and host.mem_total_bytes and used > host.mem_total_bytes:
        left_out["mem_used_bytes"] = used
    return (replace(part, **dict.fromkeys(left_out)) if left_out else part), left_out
