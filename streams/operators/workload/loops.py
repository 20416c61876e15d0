"""Loops over a span, compiled: over ticks, pods and the GPUs of each pod."""

import numpy as np

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats, Ints
from streams.operators.workload.channels import IDLE_PCT, Codes, code_of

# Of a row: the columns of one pod; those of one GPU, its metrics, then the tick's facts about it.
_POD_METRICS, _POD_UTIL, _POD_COPY, _POD_MEMORY, _POD_BUSIEST = 4, 0, 1, 2, 3
_UTIL, _POWER, _RX, _TX, _MEMORY, _TEMP, _CLOCK = range(7)
_SM, _TENSOR, _DRAM, _FP32, _NVLINK, _OCCUPANCY, _NVLINK_BOTH = range(7, 14)
_POWER_LIMIT, _POWER_CAPPED, _HEAT_CAPPED = range(14, 17)
_METRICS, _FACTS, _COLUMNS = 14, 3, 17
_CGROUP = 8
_KILO, _MEGA = 1e3, 1e6
NO_GPU = -1


@kernel
def _share(part: float, whole: float) -> float:
    """Return a share in percent; NaN of what is 0 or absent."""
    return 100.0 * part / whole if whole > 0.0 else np.nan


@kernel
def _sum_gpus(
    row: Floats, metrics: int, facts: int, gpus: int, places: Ints, total: Floats, count: Ints
) -> tuple[float, float]:
    """Write sums and counts over GPUs, by column; return how many are idle, and the utilization of the least
    busy, NaN where none is measured. ``metrics`` and ``facts``: where those of the GPUs begin. A place from
    ``gpus`` on is a slice, of which only PCIe and what it really does count."""
    total[:], count[:] = 0.0, 0
    idle = least = np.nan
    for place in places:
        if place == NO_GPU:
            break
        util = row[metrics + _METRICS * place + _UTIL]
        if place < gpus and not np.isnan(util):
            idle = (0.0 if np.isnan(idle) else idle) + (1.0 if util < IDLE_PCT else 0.0)
            least = util if np.isnan(least) else min(least, util)
        for column in range(_RX if place >= gpus else 0, _METRICS if place >= gpus else _COLUMNS):
            if place >= gpus and _TX < column < _SM:
                continue
            if column < _METRICS:
                value = row[metrics + _METRICS * place + column]
            else:
                value = row[facts + _FACTS * place + column - _METRICS]
            if not np.isnan(value):
                total[column] += value
                count[column] += 1
    for column in range(_COLUMNS):
        if count[column] == 0:
            total[column] = np.nan
    return idle, least


@entry("void(float64[:, ::1], int64[:, ::1], int64, int64, float64[:, :, ::1])")
def nvml_channels(rows: Floats, places: Ints, gpus: int, slices: int, channels: Floats) -> None:
    """Fill ``channels``, shape (ticks, pods, ``NVML_CHANNELS``). A row has the metrics of ``gpus`` GPUs, then
    those of ``slices``. ``places``: of each pod the GPUs, then the slices that it holds alone, filled up with
    ``NO_GPU``."""
    total, count = np.empty(_COLUMNS), np.empty(_COLUMNS, np.int64)
    metrics = _POD_METRICS * len(places)
    facts = metrics + _METRICS * (gpus + slices)
    for tick in range(len(rows)):
        row = rows[tick]
        for pod in range(len(places)):
            mine = row[_POD_METRICS * pod : _POD_METRICS * (pod + 1)]
            idle, least = _sum_gpus(row, metrics, facts, gpus, places[pod], total, count)
            memory = _share(mine[_POD_MEMORY], total[_MEMORY])
            received, sent = total[_RX] / count[_RX], total[_TX] / count[_TX]
            of = channels[tick, pod]
            of[0], of[1] = mine[_POD_UTIL], mine[_POD_COPY]
            of[2] = memory if np.isnan(memory) else min(memory, 100.0)
            of[3] = _share(total[_POWER], total[_POWER_LIMIT])
            of[4] = total[_POWER]
            both = not (np.isnan(received) or np.isnan(sent))
            of[5] = min(received, sent) / _KILO if both else np.nan
            of[6] = total[_POWER_CAPPED] / count[_POWER_CAPPED]
            of[7] = total[_HEAT_CAPPED] / count[_HEAT_CAPPED]
            of[8], of[9] = idle, least
            of[10] = mine[_POD_BUSIEST]
            of[11], of[12] = total[_SM] / count[_SM], total[_TENSOR] / count[_TENSOR]
            of[13], of[14] = total[_DRAM] / count[_DRAM], total[_FP32] / count[_FP32]
            nvlink = total[_NVLINK] / count[_NVLINK]
            if np.isnan(nvlink):
                nvlink = total[_NVLINK_BOTH] / count[_NVLINK_BOTH] / 2
            of[15] = nvlink / _MEGA
            of[16] = total[_OCCUPANCY] / count[_OCCUPANCY]
            of[17] = max(received, sent) / _KILO if both else np.nan


@entry("void(float64[:, ::1], int64, int64, float64[:, ::1])")
def gpu_means(rows: Floats, metrics: int, slices: int, means: Floats) -> None:
    """Fill ``means``, shape (GPUs, 4): utilization, power in percent of the limit, temperature, and the clock
    weighed by utilization; NaN where nothing was measured. ``metrics``: where those of the GPUs begin,
    behind which those of ``slices`` stand."""
    gpus = len(means)
    for gpu in range(gpus):
        begin = metrics + _METRICS * gpu
        limit = metrics + _METRICS * (gpus + slices) + _FACTS * gpu
        total, count = np.zeros(4), np.zeros(4)
        for row in rows:
            util = row[begin + _UTIL]
            power, worked = _share(row[begin + _POWER], row[limit]), row[begin + _CLOCK] * util
            for place, value in enumerate((util, power, row[begin + _TEMP], worked)):
                if not np.isnan(value):
                    total[place] += value
                    count[place] += util if place == 3 else 1.0
        for place in range(4):
            means[gpu, place] = total[place] / count[place] if count[place] > 0 else np.nan


@entry("void(float64[:, ::1], float64[:, :, ::1])")
def cgroup_channels(rows: Floats, channels: Floats) -> None:
    """Fill ``channels``, shape (ticks, pods, ``CGROUP_CHANNELS``). A row has ``POD_CGROUP_METRICS`` of each
    pod, and how busy the host's CPUs are."""
    for tick in range(channels.shape[0]):
        row = rows[tick]
        for pod in range(channels.shape[1]):
            cpu, throttled, memory, limit, read, write, rx, tx = row[_CGROUP * pod : _CGROUP * (pod + 1)]
            share = _share(memory, limit)
            of = channels[tick, pod]
            of[0], of[1] = cpu, throttled
            of[2], of[3], of[4], of[5] = read / _KILO, write / _KILO, rx / _KILO, tx / _KILO
            of[6] = share if np.isnan(share) else min(share, 100.0)
            of[7] = memory / _MEGA
            of[8] = row[-1]


@entry("void(float64[:, :, ::1], int64[:, ::1], int64[::1], uint8[:, :, ::1])")
def codes_by_second(channels: Floats, seconds: Ints, codings: Ints, codes: Codes) -> None:
    """Fill ``codes``, shape (pods, channels, seconds), from ticks that cover ``seconds``, the first and the
    last of each: of a second the mean of those that cover it. ``codings``: of the channels."""
    for pod in range(codes.shape[0]):
        for channel in range(codes.shape[1]):
            for second in range(codes.shape[2]):
                total, count = 0.0, 0
                for tick in range(len(channels)):
                    value = channels[tick, pod, channel]
                    if seconds[tick, 0] <= second <= seconds[tick, 1] and not np.isnan(value):
                        total += value
                        count += 1
                mean = total / count if count else np.nan
                codes[pod, channel, second] = code_of(mean, codings[channel])
