"""Makes the first line of the screen: everything in a few figures."""

from collections.abc import Iterator

from dutycycle.contract.units import GIB, sum_of_known
from dutycycle.live.model.state import LiveState
from dutycycle.live.views.spans import Line, util_style
from dutycycle.live.views.tables.nodes import mean_util
from dutycycle.words import percent_text


def summary(state: LiveState, title: str) -> Line:
    """Tell who this is, and what all GPUs do together."""
    line: Line = [(title, "bold")]
    for part in _parts(state):
        line += [("  ", ""), *part]
    return line


def _parts(state: LiveState) -> Iterator[Line]:
    gpus, nodes = state.gpus(), state.node_rows()
    if not state.ticks:
        yield [("waiting for the first sample …", "warn")]
        return
    if len(nodes) > 1:
        yield [(f"{len(nodes)} nodes", "")]
    if gpus:
        util = mean_util(gpus)
        mean = "" if util is None else f" {util:.0f} %"
        yield [(f"{len(gpus)} GPU{'s' * (len(gpus) > 1)}", ""), (mean, util_style(util))]
        memories = [
            (gpu.now.mem_used_bytes, gpu.now.mem_total_bytes) for gpu in gpus
            if gpu.now.mem_used_bytes is not None and gpu.now.mem_total_bytes
        ]  # fmt: skip
        if memories:
            used, total = map(sum, zip(*memories, strict=True))
            yield [(f"{used / GIB:.0f}/{total / GIB:.0f} GiB", "")]
        watts = sum_of_known(gpu.now.power_w for gpu in gpus)
        if watts is not None:
            yield [(f"{watts / 1000:.2f} kW", "")]
    cpu = sum_of_known(node.now.cpu_util_pct for node in nodes)
    if not gpus and cpu is not None:
        yield [(f"no GPU, CPU {percent_text(cpu)}", "")]
    if pods := len(state.pods()):
        yield [(f"{pods} pods", "")]
