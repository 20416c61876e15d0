"""Shows the figures of one subject: now, in its windows, and at most."""

from collections.abc import Iterator, Sequence
from math import isnan

from dutycycle.contract.catalogue import ACTIVITY_METRICS, CATALOGUE, GPU_ROWS, unit_of
from dutycycle.contract.records.samples import MigDevice
from dutycycle.contract.tensor_peak import tensor_of_peak_pct
from dutycycle.contract.units import sum_of_known, weighted_mean
from dutycycle.live.model.history import TICKS
from dutycycle.live.model.subjects import GpuRow, JobRow, NodeRow, PodRow, Row, Value
from dutycycle.live.views.charts import bucketed
from dutycycle.live.views.findings import throttle_words
from dutycycle.live.views.spans import Line
from dutycycle.live.views.tables.jobs import gpus_of
from dutycycle.live.views.tables.pods import gpus_held
from dutycycle.words import (
    UNKNOWN,
    bytes_text,
    of_bytes,
    percent_text,
    rate_text,
    short_duration,
)

Pairs = Iterator[tuple[str, str]]
_KINDS = {GpuRow: "GPU ", NodeRow: "node ", PodRow: "pod ", JobRow: "job "}
_SHOWN = {row.field: row.word for row in CATALOGUE if row.word}


def kind(row: Row) -> str:
    """Return what it is."""
    return _KINDS[type(row)]


def more(row: Row) -> str:
    """Return what else it is called."""
    if isinstance(row, GpuRow):
        return f"{row.now.model or ''}  {row.now.uuid}".strip()
    if isinstance(row, PodRow):
        job = row.identity.job if row.identity is not None else None
        return "  ".join(filter(None, (f"on {row.node}", f"{job.kind} {job.name}" if job else "", row.uid)))
    return row.kind if isinstance(row, JobRow) else ""


def now(row: Row) -> Pairs:
    """Name and value of what was measured last."""
    if isinstance(row, GpuRow):
        return _of_gpu(row)
    if isinstance(row, NodeRow):
        return _of_node(row)
    return _of_pod(row) if isinstance(row, PodRow) else _of_job(row)


def _with_max(now: str, most: str) -> str:
    return now if most == UNKNOWN else f"{now}, max {most}"


def _of_gpu(row: GpuRow) -> Pairs:
    gpu = row.now
    yield "use", _with_max(percent_text(gpu.gpu_util_pct), percent_text(row.util_max))
    for metric in GPU_ROWS:
        if metric.field in ACTIVITY_METRICS and getattr(gpu, metric.field) is not None:
            yield metric.word or metric.title, text_of(metric.field, getattr(gpu, metric.field))
    of_peak = tensor_of_peak_pct(gpu.model, gpu.tensor_active_pct, gpu.sm_clock_mhz)
    if of_peak is not None:
        yield "tensor/peak", percent_text(of_peak)
    for piece in gpu.mig or ():
        yield piece.profile or piece.uuid, slice_text(piece)
    yield "memory", of_bytes(gpu.mem_used_bytes, gpu.mem_total_bytes)
    yield "power", f"{text_of('power_w', gpu.power_w)} of {text_of('power_w', gpu.power_limit_w)}"
    yield "memory copy", percent_text(gpu.mem_copy_util_pct)
    yield "memory max", bytes_text(row.mem_max)
    for metric in GPU_ROWS:
        if metric.field.endswith("_c") and metric.kind == "gauge":
            yield metric.word, text_of(metric.field, getattr(gpu, metric.field))
    yield (
        "clocks",
        f"{text_of('sm_clock_mhz', gpu.sm_clock_mhz)}, {text_of('mem_clock_mhz', gpu.mem_clock_mhz)}",
    )
    yield "PCIe", f"in {rate_text(gpu.pcie_rx_bytes_per_s)}, out {rate_text(gpu.pcie_tx_bytes_per_s)}"
    yield "slowed by", UNKNOWN if gpu.throttle is None else throttle_words(row) or "nothing"


def slice_text(piece: MigDevice) -> str:
    """Return what a MIG slice does, as far as it tells, in few letters: its GPU tells nothing of that."""
    parts = (("", piece.gpu_util_pct), ("SM ", piece.sm_active_pct), ("tensor ", piece.tensor_active_pct))
    return ", ".join(f"{word}{value:.0f} %" for word, value in parts if value is not None) or UNKNOWN


def _of_node(row: NodeRow) -> Pairs:
    host = row.now
    cores = "" if host.cpu_count is None else f" of {host.cpu_count} cores"
    yield "CPU", _with_max(percent_text(host.cpu_util_pct) + cores, percent_text(row.util_max))
    yield "memory", of_bytes(host.mem_used_bytes, host.mem_total_bytes)
    yield "memory max", bytes_text(row.mem_max)
    read, written = rate_text(host.disk_read_bytes_per_s), rate_text(host.disk_write_bytes_per_s)
    yield "disk", f"read {read}, write {written}"
    yield "network", f"in {rate_text(host.net_rx_bytes_per_s)}, out {rate_text(host.net_tx_bytes_per_s)}"


def _of_pod(row: PodRow) -> Pairs:
    yield "CPU", _with_max(percent_text(row.cpu), percent_text(row.cpu_max))
    yield "throttled", percent_text(row.throttled)
    yield "memory", _with_max(bytes_text(row.mem), bytes_text(row.mem_max))
    used, held = gpus_held(row)
    if held:
        yield "GPUs", str(held) if used is None else f"uses {used} of {held}"
        yield "GPU use", _with_max(percent_text(row.gpu_util), percent_text(row.gpu_util_max))
        yield "GPU memory", _with_max(bytes_text(row.gpu_mem), bytes_text(row.gpu_mem_max))


def _of_job(row: JobRow) -> Pairs:
    used, held = gpus_of(row)
    yield "pods", str(len(row.pods))
    yield "nodes", str(len({pod.node for pod in row.pods.values()}))
    if held:
        yield "GPUs", str(held) if used is None else f"uses {used} of {held}"
        yield "GPU use", percent_text(row.gpu_util)
        yield "GPU memory", bytes_text(row.total("gpu_mem"))
    yield "CPU", percent_text(row.total("cpu"))
    yield "memory", bytes_text(row.total("mem"))


def text_of(metric: str, value: Value) -> str:
    """Return a value with the unit at the end of its metric's name."""
    if value is None:
        return UNKNOWN
    unit = unit_of(metric).text
    texts = {"%": percent_text, "bytes": bytes_text, "bytes/s": rate_text}
    if unit in texts:
        return texts[unit](value)
    return f"{value:.0f} {unit}" if unit in ("W", "°C", "MHz") else f"{value:.4g}"


def windows(row: Row) -> Iterator[Line]:
    """Yield the newest window of each length: mean, percentiles and maximum of each metric."""
    windows = row.derived.windows()
    if windows:
        names = "".join(f"{name:>12}" for name in ("mean", "median", "95 %", "max"))
        yield [("Windows".ljust(22), "bold"), (names, "dim")]
    for window in windows:
        for metric, words in _SHOWN.items():
            values = window.metrics.get(metric)
            if values is not None and values.mean is not None:
                title = f"  {short_duration(window.size_ms / 1000)} {words}"
                of_window = "".join(
                    f"{text_of(metric, value):>12}"
                    for value in (values.mean, values.p50, values.p95, values.max)
                )
                yield [(f"{title:<22}", ""), (of_window, "")]


def peaks(row: Row) -> Iterator[Line]:
    """Yield what a pod or job needed at most, since it began."""
    record = row.derived.read_peaks()
    if record is None:
        return
    age = short_duration((record.last_ms - record.first_ms) / 1000)
    yield [(f"At most, in {age}".ljust(22), "bold"), (f"{'max':>12}{'p95':>12}{'mean':>12}", "dim")]
    for metric, words in _SHOWN.items():
        peak = record.metrics.get(metric)
        if peak is not None:
            values = "".join(f"{text_of(metric, value):>12}" for value in (peak.max, peak.p95, peak.mean))
            yield [(f"  {words:<20}{values}", "")]


def job_history(job: JobRow) -> tuple[Sequence[int], Sequence[float]]:
    """Return times, a second or tick apart, and of its pods the mean GPU use, each as often as it has GPUs,
    or the sum of their CPU."""
    of_gpus = job.main == "gpu_util_pct"
    series = [
        (pod, history.times(), history.values(job.main))
        for pod in job.pods.values()
        if len(history := pod.gpu_history if of_gpus else pod.history)
    ]
    if not series:
        return [], []
    step_ms = max(1000, *(pod.interval_ms for pod, _, _ in series))
    last_ms = max(times[-1] for _, times, _ in series)
    # A clock that is far ahead of the others makes no history longer.
    begin_ms = max(min(times[0] for _, times, _ in series), last_ms - TICKS * step_ms)
    cells = (last_ms - begin_ms) // step_ms + 1
    # Ticks of nodes come at moments of their own, some twice in a step and some not at all.
    rows = [(len(pod.gpus) or 1, bucketed(times, values, begin_ms, step_ms, cells))
            for pod, times, values in series]  # fmt: skip
    shown: list[tuple[int, float]] = []
    for at in range(cells):
        known = [(row[at], weight) for weight, row in rows if not isnan(row[at])]
        value = weighted_mean(known) if of_gpus else sum_of_known(value for value, _ in known)
        if value is not None:
            shown.append((begin_ms + at * step_ms, value))
    return [ts_ms for ts_ms, _ in shown], [value for _, value in shown]
