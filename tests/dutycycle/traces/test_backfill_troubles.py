"""Goal: a back-fill waits, asks for less, gives up, and goes on where it was: with the same bytes."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from collectors.prometheus.dcgm.fields import Vocabulary
from collectors.prometheus.query import AwayError, QueryError, TooMuchError
from collectors.prometheus.series import ScrapedSeries, parse_matrix
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.load import load
from dutycycle.contract.trace_reader import TraceReader
from dutycycle.traces.backfill import Backfill, HistoryApi, Range

HOUR_MS = 3_600_000
GPU = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-1", "gpu": "0", "Hostname": "gpu-a",
       "namespace": "team", "pod": "bert-0"}  # fmt: skip
WANTED = Range(start_ms=0, end_ms=HOUR_MS, step_s=None, given=("1h",))


class KilledError(BaseException):
    """Nothing of the run is executed any more."""


class Kept(HistoryApi):
    """A GPU that was scraped every 15 s, by a Prometheus with ``troubles``, one for each query."""

    place = "http://prometheus"

    def __init__(self, troubles: Iterable[BaseException | None] = (), most_ms: int = 10 * HOUR_MS) -> None:
        self._troubles = iter(troubles)
        self._most_ms = most_ms
        self.says: list[str] = []
        """What each answer says of itself."""
        self.asked: list[tuple[int, int]] = []

    def history(
        self, selector: str, start_ms: int, end_ms: int, step_s: int | None, timeout_s: int
    ) -> list[ScrapedSeries]:
        if (trouble := next(self._troubles, None)) is not None:
            raise trouble
        if end_ms - start_ms > self._most_ms:
            raise TooMuchError("query processing would load too many samples into memory")
        if selector != Vocabulary().selector:
            return []
        self.asked.append((start_ms, end_ms))
        points = range(-(-max(start_ms, 0) // 15_000) * 15_000, end_ms + 1, 15_000)
        return [ScrapedSeries(GPU, tuple((ts_ms, float(ts_ms // 15_000 % 100)) for ts_ms in points))]

    def by_step(
        self, function: str, name: str, selector: str, start_ms: int, end_ms: int, step_s: int, timeout_s: int
    ) -> list[ScrapedSeries]:
        raise AssertionError("every sample is asked for here")

    def help_texts(self, names: Iterable[str], timeout_s: int) -> dict[str, list[str]]:
        return {name: ["GPU utilization (in %)."] for name in names}

    def incomplete(self) -> list[str]:
        return self.says


def run(
    prometheus: Kept,
    out: Path,
    *,
    wanted: Range = WANTED,
    overwrite: bool = False,
    environment: dict[str, str] | None = None,
) -> list[float]:
    """Record; how long it waited each time."""
    waited: list[float] = []
    settings = load(environment or {})
    Backfill(
        prometheus, str(out), wanted, settings, overwrite=overwrite, patience_s=5, sleep=waited.append
    ).run()
    return waited


def run_killed(out: Path, queries: int = 5, environment: dict[str, str] | None = None) -> Kept:
    """Record until it is killed after so many queries."""
    prometheus = Kept([None] * queries + [KilledError()])
    with pytest.raises(KilledError):
        run(prometheus, out, environment=environment)
    return prometheus


def times(out: Path) -> list[int | None]:
    return [one.ts_ms for _, one in TraceReader(str(out)) if one.topic == "dutycycle.nvml-samples"]


ALL = [15_000 * at for at in range(1, 241)]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["jsonl", "jsonl.gz", "jsonl.zst"])
@pytest.mark.parametrize("queries", [0, 1, 4, 9, 13])
def test_wherever_it_is_killed_it_goes_on_with_the_same_bytes(
    tmp_path: Path, suffix: str, queries: int
) -> None:
    whole, out = tmp_path / f"whole.{suffix}", tmp_path / f"killed.{suffix}"
    run(Kept(), whole)
    assert times(whole) == ALL
    run_killed(out, queries)
    assert not out.exists()
    run(Kept(), out)
    assert out.read_bytes() == whole.read_bytes()
    assert {file.name for file in tmp_path.iterdir()} == {whole.name, out.name}


def test_what_is_done_is_not_asked_for_again(tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    first, second = run_killed(out, 9), Kept()
    run(second, out)
    done_ms = first.asked[1][1]
    assert second.asked[0][0] + 300_000 == done_ms


def test_it_waits_for_a_prometheus_that_is_away(tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    waited = run(Kept([None, None, AwayError("away"), AwayError("away")]), out)
    assert len(waited) == 2
    assert times(out) == ALL


def test_it_gives_up_after_its_patience_and_what_is_there_stays(tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    with pytest.raises(DutycycleError, match="away; the same command goes on from here"):
        run(Kept([None] * 6 + [AwayError("away")] * 50), out)
    run(Kept(), out)
    assert times(out) == ALL


def test_what_is_refused_for_good_is_not_asked_again(tmp_path: Path) -> None:
    with pytest.raises(DutycycleError, match="credentials"):
        run(Kept([QueryError("refuses the credentials")]), tmp_path / "x.jsonl")


def test_what_is_too_much_is_asked_for_in_pieces(tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    small = Kept(most_ms=400_000)  # a chunk of 100 s, and what is looked back
    assert run(small, out) == []
    assert times(out) == ALL
    assert max(end_ms - start_ms for start_ms, end_ms in small.asked) <= 400_000


def test_chunks_grow_until_they_hold_enough(tmp_path: Path) -> None:
    found = Kept()
    run(found, tmp_path / "x.jsonl")
    lengths = [end_ms - start_ms - 300_000 for start_ms, end_ms in found.asked]
    assert lengths[:3] == [120_000, 480_000, 1_920_000]
    assert sum(lengths) == HOUR_MS


def test_another_range_is_refused_and_force_begins_anew(tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    other = Range(start_ms=HOUR_MS, end_ms=2 * HOUR_MS, step_s=None, given=("2h",))
    run_killed(out)
    with pytest.raises(DutycycleError, match=r"is of another range \(1h\)"):
        run(Kept(), out, wanted=other)
    run(Kept(), out, wanted=other, overwrite=True)
    assert times(out) == [ts_ms + HOUR_MS for ts_ms in ALL]


OURS = {
    "DUTYCYCLE_PROMETHEUS": "http://me:old@thanos:9090/eu",
    "DUTYCYCLE_PROMETHEUS_HEADERS": "X-Scope-OrgID: a\nAuthorization: Bearer old",
}


@pytest.mark.parametrize(
    ("other", "goes_on"),
    [
        ({"DUTYCYCLE_PROMETHEUS": "http://you:new@thanos:9090/eu/"}, True),
        ({"DUTYCYCLE_PROMETHEUS_HEADERS": "X-Scope-OrgID: a\nAuthorization: Bearer new"}, True),
        ({"DUTYCYCLE_PROMETHEUS": "http://me:old@thanos:9090/us"}, False),
        ({"DUTYCYCLE_PROMETHEUS_HEADERS": "X-Scope-OrgID: b"}, False),
        ({"DUTYCYCLE_PROMETHEUS_CLUSTER": "cluster=eu"}, False),
        ({"DUTYCYCLE_PROMETHEUS_NAMES": "my_power=DCGM_FI_DEV_POWER_USAGE"}, False),
    ],
)
def test_it_goes_on_with_samples_of_the_same_source_alone(
    tmp_path: Path, other: dict[str, str], goes_on: bool
) -> None:
    out = tmp_path / "x.jsonl"
    run_killed(out, environment=OURS)
    if not goes_on:
        with pytest.raises(DutycycleError, match=r"is of another Prometheus, or of another tenant, cluster"):
            run(Kept(), out, environment=OURS | other)
    else:
        run(Kept(), out, environment=OURS | other)
        assert times(out) == ALL


def test_a_trace_that_is_gone_is_not_resumed(tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    run_killed(out)
    Path(f"{out}.partial").write_bytes(b"")
    with pytest.raises(DutycycleError, match=r"is not what .*\.progress says: --force begins anew"):
        run(Kept(), out)


def test_a_trace_that_is_there_is_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "x.jsonl"
    out.write_text("mine")
    with pytest.raises(DutycycleError, match="is there already"):
        run(Kept(), out)
    assert out.read_text() == "mine"


def test_how_long_answers_lacked_samples_is_known_and_survives_an_interruption(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def backfill(prometheus: Kept, out: Path) -> Backfill:
        return Backfill(prometheus, str(out), WANTED, load({}), overwrite=False, patience_s=5)

    whole = backfill(Kept(), tmp_path / "whole.jsonl")
    whole.run()
    assert whole.incomplete_s == 0
    cut, rest = Kept([None] * 9 + [KilledError()]), Kept()
    cut.says = ["store-2 is away", "store-2 is away"]
    with pytest.raises(KilledError):
        backfill(cut, tmp_path / "x.jsonl").run()
    again = backfill(rest, tmp_path / "x.jsonl")
    again.run()
    assert again.incomplete_s == 600
    assert capsys.readouterr().err.count("did not answer with all it has: store-2 is away") == 1


def test_values_that_are_no_numbers_are_left_out_once_and_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Parts of the past are asked for with some of the part before: each value counts once all the same."""

    class Odd(Kept):
        def history(
            self, selector: str, start_ms: int, end_ms: int, step_s: int | None, timeout_s: int
        ) -> list[ScrapedSeries]:
            found = super().history(selector, start_ms, end_ms, step_s, timeout_s)
            text = {30_000: "NaN", 900_000: "+Inf", 915_000: "-Inf", 1_800_000: "+Inf"}
            return parse_matrix(
                {
                    "metric": one.labels,
                    "values": [(ms / 1000, text.get(ms, str(value))) for ms, value in one.points],
                }
                for one in found
            )

    out = tmp_path / "x.jsonl"
    run(Odd(most_ms=HOUR_MS // 4), out)
    assert times(out) == [moment for moment in ALL if moment not in (30_000, 900_000, 915_000, 1_800_000)]
    sentence = (
        "left out: 4 values that are no number, or that no machine has, such as inf of DCGM_FI_DEV_GPU_UTIL"
    )
    assert sentence in capsys.readouterr().err
