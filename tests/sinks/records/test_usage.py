"""The ledger in SQL, on both databases: exactly once, priced, rolled up, and asked for."""

from argparse import ArgumentParser
from csv import DictReader
from dataclasses import replace
from datetime import UTC, datetime
from math import nan
from typing import Any

import pytest
from msgspec.structs import replace as msgspec_replace
from sqlalchemy import create_engine, text

from dutycycle.cli.commands.usage import add_arguments, run
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.hours import GpuHour, UsageHour
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.units import END_OF_TIME_MS
from sinks.records.prices import PriceList, set_prices
from sinks.records.query import UnknownNameError
from sinks.records.rollup import Retention
from sinks.records.rows import PARTS, moment, rows_of
from sinks.records.store import RecordsStore
from sinks.records.tables.views import VIEWS
from sinks.records.usage import (
    LEDGER_MEANS,
    NOBODY,
    NONE,
    UsageQuery,
    group_text,
    is_part,
    ledger_until,
    usage,
)
from tests.support.data.two_teams import HOUR_MS, two_teams
from tests.support.sinks import made
from tests.support.sinks.recording import derived, open_store, read_rows, write_all, write_records

START_MS = 1_790_000_000_000 // (24 * HOUR_MS) * 24 * HOUR_MS
DAY_MS = 24 * HOUR_MS
SETTINGS = Settings(price_gpu_hour=2.0, price_cpu_hour=0.1, price_kwh=0.5)
ALL = UsageQuery(by=("team",), start_ms=START_MS, end_ms=START_MS + DAY_MS)


@pytest.fixture(scope="module")
def of_two_teams() -> list[ProducerRecord]:
    """What streams make of the two teams."""
    return list(derived(two_teams(START_MS)))


def hour(at: int, gpu_s: float, busy_s: float = 0, ts_ms: int | None = None) -> UsageHour:
    """A pod on a GPU, ``at`` hours after the start."""
    begin_ms = START_MS + at * HOUR_MS
    row = GpuHour(
        pod_uid="p", gpu="G", model="NVIDIA H200 NVL", gpu_s=gpu_s, known_s=gpu_s, busy_s=busy_s, energy_j=7
    )
    return UsageHour(
        node="a", source="nvml", hour_ms=begin_ms, ts_ms=begin_ms + 1 if ts_ms is None else ts_ms, gpus=(row,)
    )


def test_unknown_is_not_idle_in_any_view(records_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of two pods that share a GPU by time slicing nobody can tell which was busy."""
    unknown = GpuHour(pod_uid="u", gpu="G", gpu_s=3600, known_s=0, busy_s=0)
    half = GpuHour(pod_uid="h", gpu="H", gpu_s=3600, known_s=1800, busy_s=900)
    idle = GpuHour(pod_uid="i", gpu="I", gpu_s=3600, known_s=3600, busy_s=0, untouched_s=1800)
    put(
        records_url,
        UsageHour(node="a", source="nvml", hour_ms=HOUR_MS, ts_ms=HOUR_MS + 1, gpus=(unknown, half, idle)),
    )
    query = "SELECT gpu, gpu_busy_s, gpu_idle_s, gpu_unknown_s, gpu_untouched_s FROM usage ORDER BY gpu"
    assert read_rows(records_url, query) == [
        ("G", None, None, 3600, None), ("H", 900, 900, 1800, None), ("I", 0, 3600, 0, 1800),
    ]  # fmt: skip
    assert read_rows(records_url, "SELECT gpu_busy_s, gpu_idle_s FROM nodes") == [(900, 4500)]
    args = ArgumentParser()
    add_arguments(args)
    arguments = ["--by", "gpu", "--since", "1970-01-01T00:00:00Z", "--records", records_url]
    run(args.parse_args(arguments), Settings(records=records_url))
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["gpu", "GPU", "h", "busy", "idle", "untouched", "unknown", "busy", "of", "it"]
    assert [one.split() for one in rows] == [
        ["G", "1.00", "1.00"],
        ["H", "1.00", "0.25", "0.25", "0.50", "50", "%"],
        ["I", "1.00", "0.00", "1.00", "0.50", "0", "%"],
    ]


def test_energy_and_cost_of_a_part_of_the_time_are_the_least_and_power_is_of_that_part(
    records_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    metered = GpuHour(pod_uid="p", gpu="G", model="H200", gpu_s=3600, known_s=0, busy_s=0, energy_j=1_800_000)
    of_gap = GpuHour(gpu="G", model="H200", gpu_s=0, known_s=0, busy_s=0, energy_j=900_000)
    silent = GpuHour(pod_uid="p", gpu="H", model="L4", gpu_s=3600, known_s=0, busy_s=0)
    rows = (metered, of_gap, silent)
    hour_of_all = UsageHour(node="a", source="nvml", hour_ms=HOUR_MS, ts_ms=HOUR_MS + 1, gpus=rows)
    put(records_url, hour_of_all, prices=PriceList(gpu_models=(("H200", 3.0),)))
    args = ArgumentParser()
    add_arguments(args)

    def printed(by: str) -> list[list[str]]:
        arguments = ["--by", by, "--since", "1970-01-01T00:00:00Z", "--records", records_url]
        run(args.parse_args(arguments), Settings(records=records_url))
        return [line.split() for line in capsys.readouterr().out.splitlines()]

    assert printed("node") == [["node", "GPU", "h", "unknown", "kWh", "cost"],
                               ["a", "2.00", "2.00", "≥", "0.75", "≥", "3.00"]]  # fmt: skip
    assert printed("gpu")[1:] == [["G", "1.00", "1.00", "0.75", "3.00"], ["H", "1.00", "1.00"]]
    [row] = usage(records_url, UsageQuery(by=("node",), start_ms=0, end_ms=END_OF_TIME_MS))
    assert LEDGER_MEANS["power_w"].of(row) == 500


def test_activity_is_a_share_of_the_time_of_which_it_is_known(
    records_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hopper = GpuHour(
        pod_uid="p", gpu="G", gpu_s=3600, known_s=3600, busy_s=3600, sm_s=216, sm_known_s=1800, tensor_s=0,
        tensor_known_s=1800, working_s=900, working_known_s=1800,
    )  # fmt: skip
    ampere = GpuHour(pod_uid="p", gpu="H", gpu_s=3600, known_s=3600, busy_s=3600)
    put(
        records_url,
        UsageHour(node="a", source="nvml", hour_ms=HOUR_MS, ts_ms=HOUR_MS + 1, gpus=(hopper, ampere)),
    )
    names = "gpu_sm_s, gpu_sm_known_s, gpu_tensor_s, gpu_tensor_known_s, gpu_working_s, gpu_working_known_s"
    query = f"SELECT {names} FROM usage ORDER BY gpu"  # noqa: S608 - names of our own
    assert read_rows(records_url, query) == [(216, 1800, 0, 1800, 900, 1800), (None,) * 6]
    assert read_rows(records_url, "SELECT gpu_sm_s, gpu_tensor_s, gpu_working_s FROM nodes") == [
        (216, 0, 900)
    ]
    args = ArgumentParser()
    add_arguments(args)
    arguments = ["--by", "gpu", "--since", "1970-01-01T00:00:00Z", "--records", records_url]
    run(args.parse_args(arguments), Settings(records=records_url))
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.endswith("busy of it  working of it  SM of it  tensor of it")
    assert [one.split()[-8:] for one in rows] == [
        ["100", "%", "50", "%", "12", "%", "0", "%"], ["H", "1.00", "1.00", "0.00", "100", "%"],
    ]  # fmt: skip


def put(url: str, *records: UsageHour, **options: Any) -> RecordsStore:
    store = open_store(url, **options)
    for one in records:
        assert store.put(rows_of(one)) == []
    store.close()
    return store


def test_a_team_has_what_its_pods_used_and_what_is_nobodys_is_there_too(
    records_url: str, of_two_teams: list[ProducerRecord]
) -> None:
    for _ in range(2):  # a repeat adds nothing
        write_all(of_two_teams, records_url, SETTINGS)
    rows = {row["team"]: row for row in usage(records_url, ALL)}
    hours = {team: (row["gpu_s"] / 3600, row["gpu_busy_s"] / 3600) for team, row in rows.items()}
    assert hours == {
        "nlp": pytest.approx((2.0, 1.7)), "vision": pytest.approx((0.5, 0.05)),
        NONE: pytest.approx((1.5, 0)), NOBODY: pytest.approx((0.5, 0)),
    }  # fmt: skip
    assert rows["nlp"]["gpu_cost"] == pytest.approx(2.0 * 2)
    assert rows["nlp"]["cpu_cost"] == pytest.approx((1.5 + 0.5) * 4 * 0.1)  # requested is more than used
    assert rows[NOBODY]["cpu_s"] == pytest.approx(6 * 5400 - 2.5 * 5400 - 1800 - 1800)
    assert sum(row["energy_j"] for row in rows.values()) == pytest.approx((300 + 100 + 50) * 5390)
    assert list(rows) == ["nlp", NONE, "vision", NOBODY] or list(rows)[:2] == ["nlp", NONE]


@pytest.mark.parametrize("label", ["gpu_s", "cost", "gpu_idle_cost"])
def test_a_label_that_is_called_as_a_sum_has_a_column_of_its_own(
    label: str, records_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_records(records_url, made.pod_peaks("p", {"labels": {label: "big"}}), hour(0, 60, 30))
    parser = ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args(["--by", label, "--format", "csv", "--since", "2026-09-01T00:00:00Z"])
    assert run(args, replace(Settings(), records=records_url)) == 0
    (printed,) = DictReader(capsys.readouterr().out.splitlines())
    assert (printed[f"label {label}"], printed["gpu_s"]) == ("big", "60.0")


def test_a_week_begins_on_its_monday(records_url: str) -> None:
    days = {"2026-11-22": "2026-11-16", "2026-11-23": "2026-11-23", "2026-11-29": "2026-11-23"}
    hours = {day: round(datetime.fromisoformat(f"{day}T23:00+00:00").timestamp() * 1000) for day in days}
    gpu = GpuHour(pod_uid=None, gpu="G", model=None, gpu_s=60, known_s=0, busy_s=0)
    write_records(records_url, *(
        UsageHour(node="a", source="nvml", hour_ms=hour_ms, ts_ms=hour_ms + 1, gpus=(gpu,))
        for hour_ms in hours.values()
    ))  # fmt: skip
    rows = usage(records_url, UsageQuery(by=("week",), start_ms=0, end_ms=END_OF_TIME_MS))
    assert [(group_text("week", row["week"]), row["gpu_s"]) for row in rows] == [
        ("2026-11-16", 60), ("2026-11-23", 120),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    "by", ["hour", "day", "week", "namespace", "job", "pod", "node", "gpu", "model", "cost-centre"]
)
def test_everything_it_can_be_asked_by_has_the_same_sum(
    records_url: str, by: str, of_two_teams: list[ProducerRecord]
) -> None:
    write_all(of_two_teams, records_url)
    rows = usage(records_url, replace(ALL, by=(by,)))
    assert sum(row["gpu_s"] or 0 for row in rows) == pytest.approx(3 * 5400)
    assert {row["cost"] for row in rows} == {None}


def test_pods_jobs_and_nodes_have_their_sums(records_url: str, of_two_teams: list[ProducerRecord]) -> None:
    write_all(of_two_teams, records_url, SETTINGS)
    query = "SELECT gpu_s, energy_j, cpu_s, cost, gpus FROM {}"
    of_pod = read_rows(records_url, query.format("pods WHERE pod = 'name-of-pod-a'"))
    of_job = read_rows(records_url, query.format("jobs WHERE job = 'job-of-pod-a'"))
    assert of_pod == of_job
    assert of_pod[0][:3] == pytest.approx((5400, 300 * 5390, 2.5 * 5400))
    query = "SELECT gpus, gpu_model, gpu_s, gpu_busy_s, gpu_free_s, cpu_s FROM nodes"
    of_node = read_rows(records_url, query)
    assert of_node[0][:2] == (3, "NVIDIA H200")
    assert of_node[0][2:] == pytest.approx((3 * 5400, 0.8 * 5400 + 180 + 1800, 1800, 6 * 5400))


def test_what_is_not_there_is_named(records_url: str, of_two_teams: list[ProducerRecord]) -> None:
    write_all(of_two_teams, records_url)
    with pytest.raises(UnknownNameError, match=r"--namespace mll: .*; there are: cv, default, ml$"):
        usage(records_url, replace(ALL, namespace="mll"))
    with pytest.raises(UnknownNameError, match=r"--by tem: .*cost-centre, day, .*, team, week$"):
        usage(records_url, replace(ALL, by=("tem",)))
    assert [row["team"] for row in usage(records_url, replace(ALL, namespace="ml"))] == ["nlp"]


def test_of_two_statements_of_an_hour_the_one_with_more_time_counts(records_url: str) -> None:
    put(records_url, hour(0, 60), hour(0, 30, ts_ms=START_MS + 99), hour(0, 60, 5, ts_ms=START_MS + 5))
    assert read_rows(records_url, "SELECT gpu_s, gpu_busy_s FROM usage_hours") == [(60, 5)]


@pytest.mark.parametrize(
    ("goal", "hours", "after_ms"),
    [
        ("nothing", [], None),
        ("the newest hour", [hour(0, 60), hour(1, 60)], HOUR_MS + 1),
        ("one of a clock that is a day ahead", [hour(0, 60), hour(1, 60), hour(23, 60)], HOUR_MS + 1),
        ("one of a clock a bit ahead", [hour(1, 60, ts_ms=START_MS + DAY_MS)], 3 * HOUR_MS // 2),
        ("only hours to come", [hour(23, 60)], None),
    ],
)  # fmt: skip
def test_up_to_when_the_ledger_is_written(
    goal: str, hours: list[UsageHour], after_ms: int | None, records_url: str
) -> None:
    put(records_url, *hours)
    expected = None if after_ms is None else START_MS + after_ms
    assert ledger_until(records_url, START_MS + 3 * HOUR_MS // 2) == expected, goal


def test_a_price_holds_from_its_hour_on_and_the_first_one_always(records_url: str) -> None:
    put(records_url, hour(0, 3600), hour(1, 3600), prices=PriceList(gpu_hour=2.0))
    engine = create_engine(records_url)
    at = datetime.fromtimestamp((START_MS + HOUR_MS) / 1000 + 1800, UTC)
    later = PriceList(gpu_hour=3.0, gpu_models=(("H200", 5.0), ("H200 NVL", 6.0), ("A100", 1.0)))
    with engine.begin() as connection:
        set_prices(connection, later, at)
        set_prices(connection, later, at)  # the same again is no change
    engine.dispose()
    assert read_rows(records_url, "SELECT gpu_cost FROM usage ORDER BY hour") == [(2.0,), (6.0,)]
    assert read_rows(records_url, "SELECT count(DISTINCT since) FROM prices") == [(2,)]


def test_old_hours_become_days_and_a_repeat_of_one_adds_nothing(records_url: str) -> None:
    hours = [hour(at, 3600, 1800) for at in range(24 * 4)]
    store = put(
        records_url, *hours, prices=PriceList(gpu_hour=1.0), retention=Retention(hours_s=86_400, days_s=1e9)
    )
    before = read_rows(records_url, "SELECT sum(gpu_s), sum(gpu_busy_s), sum(cost), sum(energy_j) FROM usage")
    assert store.roll_up() == 2 * 24
    assert store.put(rows_of(hours[0])) == []
    assert store.roll_up() == 0
    store.close()
    assert read_rows(records_url, "SELECT count(*) FROM usage_hours") == [(2 * 24,)]
    assert (
        read_rows(records_url, "SELECT sum(gpu_s), sum(gpu_busy_s), sum(cost), sum(energy_j) FROM usage")
        == before
    )
    assert (
        read_rows(records_url, "SELECT gpu_s, gpu_cost FROM usage_by_day ORDER BY day")
        == [(86_400.0, 24.0)] * 4
    )


def test_a_day_of_which_an_hour_has_no_energy_has_it_of_a_part(records_url: str) -> None:
    hours = [hour(at, 3600) for at in range(24 * 4)]
    hours[1] = msgspec_replace(hours[1], gpus=(msgspec_replace(hours[1].gpus[0], energy_j=None),))
    prices = PriceList(gpu_hour=1.0, kwh=1.0)
    store = put(records_url, *hours, prices=prices, retention=Retention(hours_s=86_400, days_s=1e9))
    first_day = UsageQuery(by=("node",), start_ms=START_MS, end_ms=START_MS + DAY_MS)
    [before] = usage(records_url, first_day)
    assert store.roll_up() == 2 * 24
    [row] = usage(records_url, first_day)
    assert row == pytest.approx(before)
    assert (row["energy_known_s"], row["gpu_priced_s"]) == (23 * 3600, 24 * 3600)
    assert [name for name in ("energy_j", "cost", "gpu_idle_cost") if is_part(row, name)] == [
        "energy_j", "cost",
    ]  # fmt: skip


def test_days_that_are_older_than_the_columns_of_what_is_known_count_as_before(records_url: str) -> None:
    """Their hours are gone: without an answer of theirs, the cost of a year would be that of a part of it."""
    hours = [hour(at, 3600) for at in range(24 * 4)]
    prices = PriceList(gpu_hour=1.0, kwh=1.0)
    store = put(records_url, *hours, prices=prices, retention=Retention(hours_s=86_400, days_s=1e9))
    query = UsageQuery(by=("node",), start_ms=START_MS, end_ms=END_OF_TIME_MS)
    [before] = usage(records_url, query)
    assert store.roll_up() == 2 * 24
    store.close()
    engine = create_engine(records_url)
    with engine.begin() as connection:
        for name in reversed(VIEWS):
            connection.execute(text(f"DROP VIEW {name}"))
        for name in PARTS:
            connection.execute(text(f"ALTER TABLE usage_days DROP COLUMN {name}"))
    engine.dispose()
    open_store(records_url).close()
    [row] = usage(records_url, query)
    assert row == pytest.approx(before)
    assert (row["gpu_priced_s"], row["energy_priced_s"], row["energy_known_s"]) == (4 * 86_400,) * 3
    assert LEDGER_MEANS["power_w"].of(row) == pytest.approx(7 / 3600)


def test_a_time_that_begins_in_a_day_which_hours_became_has_all_of_it(records_url: str) -> None:
    """What is asked for has whole hours; nothing tells the hours of such a day apart."""
    hours = [hour(at, 3600) for at in range(24 * 4)]
    store = put(records_url, *hours, retention=Retention(hours_s=86_400, days_s=1e9))
    store.roll_up()
    for begin_h, expected in ((6, 4 * 24), (30, 3 * 24), (54, 2 * 24 - 6)):
        start_ms = START_MS + begin_h * HOUR_MS
        [row] = usage(records_url, UsageQuery(by=("node",), start_ms=start_ms, end_ms=END_OF_TIME_MS))
        assert row["gpu_s"] == expected * 3600


def test_a_day_is_no_surer_whose_it_was_than_the_least_sure_of_its_hours(records_url: str) -> None:
    """As in the hour: what is partly the device's is not measured."""
    words = ["measured", "allocated", "unknown", "measured"]
    hours = [replace_word(hour(at, 60), word) for at, word in enumerate(words)]
    store = put(records_url, *hours, hour(72, 60), retention=Retention(hours_s=86_400, days_s=1e9))
    store.roll_up()
    assert read_rows(records_url, "SELECT attribution FROM usage_days") == [("allocated",)]


def replace_word(of: UsageHour, word: str) -> UsageHour:
    return msgspec_replace(of, gpus=tuple(msgspec_replace(row, attribution=word) for row in of.gpus))


def test_old_days_are_forgotten(records_url: str) -> None:
    hours = [hour(at, 3600) for at in range(0, 24 * 5, 12)]
    store = put(records_url, *hours, retention=Retention(hours_s=86_400, days_s=3 * 86_400))
    store.roll_up()
    store.close()
    days = {str(day)[:10] for (day,) in read_rows(records_url, "SELECT day FROM usage_days")}
    assert days == {moment(START_MS + day * DAY_MS)[:10] for day in (1, 2)}


MEANS: list[tuple[str, str, dict[str, float | None], float]] = [
    ("busy of what is known", "gpu_util_pct", {"gpu_busy_s": 30, "gpu_idle_s": 90}, 25),
    ("idle all the time", "gpu_util_pct", {"gpu_busy_s": 0, "gpu_idle_s": 60}, 0),
    ("not known", "gpu_util_pct", {"gpu_busy_s": None, "gpu_idle_s": 60}, nan),
    ("known of no time", "gpu_util_pct", {"gpu_busy_s": 0, "gpu_idle_s": 0}, nan),
    ("watts", "power_w", {"energy_known_j": 500, "energy_known_s": 10}, 50),
    ("energy that nobody told", "power_w", {"energy_known_j": None, "energy_known_s": None}, nan),
    ("activity of the time of which it is told", "sm_active_pct", {"gpu_sm_s": 1, "gpu_sm_known_s": 4}, 25),
]


@pytest.mark.parametrize(("goal", "metric", "row", "mean"), MEANS, ids=[row[0] for row in MEANS])
def test_a_mean_by_the_ledger(goal: str, metric: str, row: dict[str, float | None], mean: float) -> None:
    assert LEDGER_MEANS[metric].of(row) == pytest.approx(mean, nan_ok=True), goal
