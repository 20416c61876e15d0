"""Goal: a picture of what was asked for, from whatever a replay reads or writes; and who asks for what is not
there learns what is."""

import xml.etree.ElementTree as ET
from pathlib import Path

import orjson
import pytest

from dutycycle.cli.main import main
from dutycycle.contract.trace import TraceRecord, TraceWriter
from dutycycle.plot.charts import charts_of, span_of
from dutycycle.plot.collected import Wanted
from dutycycle.plot.sources import read, sources_of
from dutycycle.report.charts.chart import Chart
from tests.support.data.samples import gpu, nvml
from tests.support.data.traces import write_trace
from tests.support.data.training_job import START_MS, UID, training_job
from tests.support.targets import slow_after

GPU = "gpu/gpu-a/GPU-0000"
POD = f"pod/{UID}"
SECONDS = 400
NAMED = "cycle 12 s (ml/bert-worker-0)"
MODEL = "hw=gpu/gpu_util_pct: time_series.HoltWinters(alpha=0.1, beta=0.01, gamma=0.3, seasonality=12)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace, its results, and its tables of both formats."""
    found = tmp_path_factory.mktemp("plot")
    with TraceWriter(str(found / "day.jsonl")) as trace:
        for record in training_job(SECONDS):
            trace.write(record)
    replay = ["replay", str(found / "day.jsonl"), "--out"]
    assert main([*replay, f"{found}/run/", "--model", MODEL, "--quiet"]) == 0
    for name in ("csv", "parquet"):
        assert main([*replay, f"{found}/{name}", "--format", name]) == 0
    return found


def charts(folder: Path, names: tuple[str, ...], wanted: Wanted) -> list[Chart]:
    collected, unusable = read(sources_of([str(folder / one) for one in names]), wanted, "dutycycle.")
    assert unusable == 0
    return charts_of(collected, collected.chosen(), span_of(collected))


def test_samples_are_drawn_as_they_are(folder: Path) -> None:
    (chart,) = charts(folder, ("day.jsonl",), Wanted([GPU], ["gpu_util_pct"]))
    (line,) = chart.lines
    samples = [record for record in training_job(SECONDS) if "nvml" in record.topic]
    truth = [orjson.loads(one.payload or b"")["gpus"][0]["gpu_util_pct"] for one in samples]
    assert line.points.exact
    assert line.points.mean.tolist() == truth
    assert (chart.title, chart.unit, line.name) == (f"gpu_util_pct of {GPU}", "%", "measured")


@pytest.mark.parametrize(
    ("names", "subject", "metric", "lines", "cycle"),
    [
        (("day.jsonl",), "gpu/*", "power_w", ["gpu/gpu-a/GPU-0000", "gpu/gpu-a/GPU-0001"], None),
        (("day.jsonl",), "ml/bert", "cpu_util_pct", ["measured"], None),
        (("run",), "ml/bert", "cpu_util_pct", None, None),
        (("run",), POD, "cpu_util_pct", ["mean of 10 s"], f"cycle 12 s ({POD})"),
        (("day.jsonl", "run"), "bert-worker-0", "cpu_util_pct", ["measured"], NAMED),
        (("parquet",), "ml/bert", "cpu_util_pct", ["mean of 10 s"], NAMED),
        (("csv",), "ml/bert", "cpu_util_pct", ["mean of 10 s"], NAMED),
        (("csv",), GPU, "gpu_util_pct", ["measured"], f"cycle 12 s ({GPU})"),
        (("parquet",), GPU, "gpu_util_pct", ["measured"], f"cycle 12 s ({GPU})"),
    ],
)  # fmt: skip
def test_sources(
    folder: Path,
    names: tuple[str, ...],
    subject: str,
    metric: str,
    lines: list[str] | None,
    cycle: str | None,
) -> None:
    wanted = Wanted([subject], [metric])
    if lines is None:
        with pytest.raises(
            Exception, match=r"no subject ml/bert: no pod is named here; keys begin with gpu/"
        ):
            charts(folder, names, wanted)
        return
    (chart,) = charts(folder, names, wanted)
    assert [one.name for one in chart.lines] == lines
    assert (chart.cycle and chart.cycle[0]) == cycle


def test_tables_and_traces_have_the_same_samples(folder: Path) -> None:
    wanted = Wanted([GPU, "node/gpu-a"], ["gpu_util_pct", "cpu_util_pct"])
    drawn = [
        [
            (one.name, one.points.mean.tolist())
            for chart in charts(folder, (name,), wanted)
            for one in chart.lines
        ]
        for name in ("day.jsonl", "csv", "parquet")
    ]
    assert drawn[0] == drawn[1] == drawn[2]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_tables_and_traces_have_the_same_means_of_the_drivers_samples(form: str, tmp_path: Path) -> None:
    with TraceWriter(str(tmp_path / "day.jsonl")) as trace:
        for at in range(60):
            used = gpu(0, gpu_util_pct=100, power_w=600, util_burst=[[-500, 20], [0, 100]],
                       power_burst=[[-500, 200], [0, 600]])  # fmt: skip
            ts_ms = START_MS + 1000 * at
            payload = orjson.dumps(nvml(at, [used], ts_ms=ts_ms))
            trace.write(TraceRecord(topic="dutycycle.nvml-samples", key="a", payload=payload, ts_ms=ts_ms))
    replay = [
        "replay", str(tmp_path / "day.jsonl"), "--quiet", "--out", f"{tmp_path}/{form}", "--format", form,
    ]  # fmt: skip
    assert main(replay) == 0
    wanted = Wanted(["gpu/*"], ["gpu_util_pct", "power_w"])
    drawn = [
        {
            value
            for chart in charts(tmp_path, (name,), wanted)
            for value in chart.lines[0].points.mean.tolist()
        }
        for name in ("day.jsonl", form)
    ]
    assert drawn == [{60.0, 400.0}] * 2


def test_forecasts_stand_at_the_moment_that_they_are_about(folder: Path) -> None:
    (chart,) = charts(folder, ("day.jsonl", "run"), Wanted([GPU], ["gpu_util_pct"], 30.0))
    (measured,), (built_in, model) = chart.lines, chart.dots
    assert [built_in.name, model.name] == ["trends, 30 s ahead", "hw, 30 s ahead"]
    assert not built_in.points.exact  # it has an interval
    records = [*map(orjson.loads, _lines(folder))]
    values = dict(zip(model.points.times.tolist(), model.points.mean.tolist(), strict=True))
    said = [one["payload"] for one in records if one["topic"].endswith("model-forecasts")]
    made = [one for one in map(orjson.loads, said) if one["subject"]["gpu"] == "GPU-0000"]
    truth = {
        one["ts_ms"] + 30_000: ahead["value"]
        for one in made
        for ahead in one["forecast"]
        if ahead["horizon_s"] == 30
    }
    assert len(values) > 10
    last_ms = int(measured.points.times[-1])
    assert values == {ts_ms: value for ts_ms, value in truth.items() if ts_ms <= last_ms}
    assert measured.points.start_ms == START_MS


def _lines(folder: Path) -> list[bytes]:
    import zstandard

    (run,) = (folder / "run" / "runs").iterdir()
    with zstandard.open(run / "derived.jsonl.zst", "rb") as file:
        found: list[bytes] = file.read().splitlines()
    return found


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_a_title_stands_above(folder: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"util.{suffix}"
    what = ["plot", str(folder / "day.jsonl"), "--subject", GPU, "--metric", "gpu_util_pct", "--from", "-60s"]
    assert main([*what, "--title", "Before <it>", "--out", str(out)]) == 0
    assert "Before &lt;it&gt;" in out.read_text()


@pytest.mark.parametrize("suffix", slow_after(1, ["svg", "png", "html"]))
def test_formats(folder: Path, tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / f"util.{suffix}"
    what = [str(folder / "day.jsonl"), "--subject", GPU, "--metric", "gpu_util_pct", "--metric", "power_w"]
    assert main(["plot", *what, "--from", "-60s", "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}: gpu_util_pct of {GPU}, power_w of {GPU}; 2 lines\n"
    content = out.read_bytes()
    if suffix == "png":
        assert content[:4] == b"\x89PNG"
    elif suffix == "svg":
        assert ET.fromstring(content).tag.endswith("svg")  # noqa: S314 - we wrote it
    else:
        assert b'data-chart="power-w"' in content
    assert main(["plot", *what, "--from", "-60s", "--out", str(out), "--force"]) == 0
    assert out.read_bytes() == content
    assert [one.name for one in tmp_path.iterdir()] == [out.name]


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["{day}"], 1, "give --metric; there are busiest_gpu_util_pct, cpu_throttled_pct, cpu_util_pct"),
        (["{day}", "--metric", "gpu_utl_pct"], 1, "no metric gpu_utl_pct of any subject; did you mean"),
        (["{day}", "--metric", "mem_clock_mhz"], 1, "no metric mem_clock_mhz of any subject"),
        (["{day}", "--subject", "node/*", "--metric", "x"], 1, "no metric x of node/*; there are cpu_util"),
        (["{day}", "--subject", "gpu/b/*", "--metric", "x"], 1, f"no subject gpu/b/*; there are {GPU}, "),
        (["{day}", "--subject", "gpt", "--metric", "x"], 1, "no job or pod 'gpt' in what was read; "),
        (["{day}", "--metric", "power_w", "--forecast", "30s"], 1, "no forecast 30s ahead; there are none"),
        (["{run}", "--metric", "power_w", "--forecast", "7s"], 1, "no forecast 7s ahead; there are 10s, "),
        (["{folder}/none", "--metric", "x"], 1, "none: No such file or directory"),
        (["{folder}", "--metric", "x"], 1, "has neither tables (topic=…) nor a run"),
        (["{day}", "--metric", "power_w", "--out", "x.pdf"], 2, "--out x.pdf: expected a name that"),
        (["{day}", "--metric", "power_w", "--from", "noon"], 2, "--from 'noon': expected 2026-11"),
        (["{day}", "--metric", "power_w", "--from", "-1s", "--to", "-9s"], 2, "--from is not before --to"),
        (["-", "--subject", "bert", "--metric", "x"], 1, "standard input is read once: give a key"),
    ],
)  # fmt: skip
def test_refused(
    folder: Path, tmp_path: Path, arguments: list[str], status: int, message: str,
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    places = {"day": folder / "day.jsonl", "run": folder / "run", "folder": folder}
    assert main(["plot", *(one.format(**places) for one in arguments)]) == status
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
    assert [*tmp_path.iterdir()] == []


def test_a_folder_of_several_runs(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "derived.jsonl.zst").touch()
    assert main(["plot", str(tmp_path), "--metric", "power_w", "--out", str(tmp_path / "x.png")]) == 1
    assert f"has 2 runs: give the folder of one, such as {tmp_path}/runs/a" in capsys.readouterr().err


def test_a_record_that_cannot_be_used_is_counted(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.jsonl"
    with TraceWriter(str(bad)) as trace:
        trace.write(TraceRecord(topic="dutycycle.cycles", key="k", payload=b"{}", ts_ms=START_MS))
    out = tmp_path / "x.svg"
    what = [str(bad), str(folder / "day.jsonl"), "--subject", "node/gpu-a", "--metric", "cpu_util_pct"]
    assert main(["plot", *what, "--out", str(out)]) == 0
    assert capsys.readouterr().err == "dutycycle: 1 records could not be used\n"
    assert out.exists()


def test_of_too_many_subjects_the_first_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, out = write_trace(tmp_path / "many.jsonl", training_job(30, gpus=18)), tmp_path / "x.png"
    assert main(["plot", str(trace), "--subject", "gpu/*", "--metric", "power_w", "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{out}: power_w; 16 lines\n"
    assert printed.err == (
        "dutycycle: 18 subjects have power_w, and a picture shows the first 16: not gpu/gpu-a/GPU-0016, "
        "gpu/gpu-a/GPU-0017; choose by --subject\n"
    )
    assert out.exists()


def test_a_single_tick_can_be_drawn(tmp_path: Path) -> None:
    trace, out = write_trace(tmp_path / "one.jsonl", training_job(1)), tmp_path / "x.png"
    what = [str(trace), "--subject", "gpu/*", "--metric", "power_w"]
    assert main(["plot", *what, "--out", str(out)]) == 0
    assert main(["plot", *what, "--from", "-0s", "--out", str(out), "--force"]) == 2
