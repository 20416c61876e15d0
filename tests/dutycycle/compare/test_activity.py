"""What GPUs do while in use, of runs side by side: the table says what the charts draw."""

import json
import re
from collections.abc import Iterator

import numpy as np
import pytest

from dutycycle.compare.comparison import NamedRun, plain_of
from dutycycle.compare.page import html_of
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.measures.figures import TIME_LAYERS, measures_of
from dutycycle.report.build import gather_records, report_of
from tests.support.data.samples import gpu, nvml, record

SECONDS = 400


def samples(tensor: float | None) -> Iterator[ConsumerRecord]:
    """Two GPUs in steps of 20 s, of which the second works half as hard; None: they count nothing."""
    chance = np.random.default_rng(7)
    for at in range(SECONDS):
        works = at % 20 < 15
        gpus = []
        for index in range(2):
            util = (95 if works else 5) + chance.normal()
            counted = {} if tensor is None else {
                "sm_active_pct": round(0.8 * util, 1), "dram_active_pct": 20 + 10 * index,
                "tensor_active_pct": round((tensor if works else 0) / (1 + index), 1),
            }  # fmt: skip
            processes = [{"pid": index + 1, "pod_uid": "p"}]
            of_all = {"model": "NVIDIA H200", "sm_clock_mhz": 1500, "gpu_util_pct": round(util, 1)}
            gpus.append(gpu(index, processes=processes, **of_all, **counted))
        yield record("nvml-samples", "a", nvml(at, gpus), at)


def run(name: str, tensor: float | None) -> NamedRun:
    report = report_of(gather_records([*samples(tensor)], Settings()), Settings(), name)
    return NamedRun(name, report, measures_of(report))


@pytest.fixture(scope="module")
def runs() -> list[NamedRun]:
    return [run("fp32", 8.0), run("bf16", 60.0)]


@pytest.mark.slow
def test_the_table_says_where_the_time_goes_as_the_chart_draws_it(runs: list[NamedRun]) -> None:
    for one in runs:
        (chart,) = (chart for chart in one.report.charts if chart.id == "gpu-time")
        drawn = {line.name: float(np.nanmean(line.points.mean)) for line in chart.lines}
        told = {layer: one.measures[id_].value for id_, layer in TIME_LAYERS.items()}
        assert sum(told.values()) == pytest.approx(100)
        assert {layer: pct for layer, pct in told.items() if layer in drawn} == pytest.approx(drawn)
        assert all(pct == 0 for layer, pct in told.items() if layer not in drawn)


def test_more_time_on_tensor_cores_is_a_difference_and_the_idle_time_is_none(runs: list[NamedRun]) -> None:
    changed = {change["figure"]: change for change in plain_of(runs)["changes"]}
    tensor = changed["gpu_tensor_time_pct"]
    assert (tensor["before"], tensor["after"], tensor["changed"]) == (
        pytest.approx(0.75 * 6, abs=0.1), pytest.approx(0.75 * 45, abs=0.3), True,
    )  # fmt: skip
    assert changed["gpu_idle_time_pct"]["changed"] is False
    of_peak = changed["tensor_of_peak_pct"]
    assert of_peak["after"] == pytest.approx(0.75 * 45 * 1500 / 1830, abs=0.3)


def test_each_run_has_a_stack_and_its_dots_on_the_plane(runs: list[NamedRun]) -> None:
    page = html_of(runs)
    for one in runs:
        assert f"Where the GPUs&#39; time goes: {one.name}" in page
        (plane,) = (chart for chart in one.report.charts if chart.id == "gpu-plane")
        (spots,) = plane.spots
        rows = page.partition(f'>{one.name}</th><th scope="col">DRAM')[2].partition("</table>")[0]
        cells = [float(cell) for cell in re.findall(r"<td[^>]*>([\d.]+)</td>", rows)]
        assert np.array(cells).reshape(-1, 3)[:, 2] == pytest.approx(spots.y, rel=1e-3)
    (figures,) = re.findall(r'id="figures">(.*?)</script>', page)
    figure = json.loads(figures)["gpu-plane"]
    assert [of["name"] for of in figure["data"]] == ["fp32", "bf16"]
    assert len({of["marker"]["color"] for of in figure["data"]}) == 2


def test_the_lines_over_one_another_are_the_means_of_all_gpus_of_each_run(runs: list[NamedRun]) -> None:
    """Also of one whose ticks are of another length: of a slow one each value stands until the next."""
    two = []
    for at in range(SECONDS):
        for node, step, util in (("a", 1, 20 if at < 200 else 40), ("b", 5, 80)):
            gpus = [{**gpu(gpu_util_pct=util), "uuid": node}]
            tick = nvml(at // step, gpus, node=node, ts_ms=1000 * at, interval_ms=1000 * step)
            two += [record("nvml-samples", node, tick, at)] if at % step == 0 else []
    report = report_of(gather_records(two, Settings()), Settings(), "two")
    (found,) = re.findall(
        r'id="figures">(.*?)</script>', html_of([*runs, NamedRun("two", report, measures_of(report))])
    )
    drawn = {line["name"]: line for line in json.loads(found)["gpu-util"]["data"]}
    for name, tensor in (("fp32", 8.0), ("bf16", 60.0)):
        ticks = [json.loads(tick.value or b"")["gpus"] for tick in samples(tensor)]
        truth = [np.mean([gpu["gpu_util_pct"] for gpu in gpus]) for gpus in ticks]
        assert drawn[name]["y"] == pytest.approx(truth, rel=1e-3)
    assert drawn["two"]["y"] == pytest.approx([50.0] * 200 + [60.0] * 200)


def test_where_nothing_is_counted_nothing_of_it_is_compared() -> None:
    silent = [run("old", None), run("older", None)]
    page = html_of(silent)
    assert not {*TIME_LAYERS, "tensor_of_peak_pct"} & silent[0].measures.keys()
    assert "time goes" not in page
    assert "gpu-plane" not in page
