"""Charts of blocks: what is drawn where."""

from math import isnan, nan

from hypothesis import given
from hypothesis import strategies as st

from dutycycle.contract.records.derived import Forecast
from dutycycle.live.model.history import MetricHistory, ticks_of_each
from dutycycle.live.views.charts import ForecastCells, Scale, bucketed, columns, fold, with_fan
from dutycycle.live.views.spans import bar, fit, sparkline, text_of, width_of
from dutycycle.live.views.tables.columns import TableColumn, layout, sort_rows

PERCENT = Scale(height=2, top=100)


def test_a_cycle_is_folded_over_its_period_and_begins_with_its_climb() -> None:
    times = range(0, 60_000, 1000)
    values = [90.0 if second % 10 in (4, 5, 6) else 10.0 for second in range(60)]
    assert fold(times, values, 10, 10) == [90.0] * 3 + [10.0] * 7


def test_a_period_between_two_ticks_is_folded_finer_than_a_tick() -> None:
    times = range(0, 600_000, 1000)
    values = [80.0 if second % 2.5 < 1 else 0.0 for second in range(600)]
    folded = [value for value in fold(times, values, 2.5, 5) if not isnan(value)]
    assert folded == [80.0, 80.0, 0.0, 0.0, 0.0]


def test_ticks_are_put_in_cells_of_time_and_a_lost_one_leaves_no_gap() -> None:
    found = bucketed([0, 1000, 2000, 5000], [10, 20, 30, nan], 0, 2000, 4)
    assert found[:3] == [15, 30, 30]
    assert isnan(found[3]), "longer silence is a gap"


def test_bars_are_as_high_as_their_values() -> None:
    lines = [text_of(line) for line in columns([0, 25, 50, 75, 100, nan, 1000], PERCENT, "info")]
    assert lines == [" 100 %    ▄█ █", "   0 %  ▄███ █"]


def test_a_fan_goes_from_now_to_its_horizons() -> None:
    fan = ForecastCells(50, (Forecast(horizon_s=10, value=60, p05=40, p95=80),), cell_s=5, cells=3)
    assert fan.at(0) == (45, 55, 65)
    assert fan.at(1) == fan.at(2) == (40, 60, 80)
    lines = [text_of(line) for line in with_fan([50], fan, PERCENT)]
    assert lines == [" 100 %  ▄▄▄", "   0 % █░░░"]


def test_of_what_repeats_only_the_horizons_are_shown() -> None:
    ahead = (
        Forecast(horizon_s=20, value=90, p05=80, p95=99),
        Forecast(horizon_s=45, value=10, p05=0, p95=20),
    )
    fan = ForecastCells(50, ahead, cell_s=5, cells=10, repeats=True)
    lines = [text_of(line) for line in with_fan([], fan, PERCENT)]
    assert lines == [" 100 %    ▄▄▄    ", "   0 %         ▄▄"]


def test_a_history_keeps_the_newest_and_takes_nothing_twice() -> None:
    history = MetricHistory(("a",), size=3)
    for ts_ms in (1, 2, 2, 3, 1, 4, 5):
        history.add(ts_ms, (float(ts_ms),))
    assert (list(history.times()), list(history.values("a"))) == ([3, 4, 5], [3, 4, 5])
    assert (list(history.values("a", 2)), history.last_ms, len(history)) == ([4, 5], 5, 3)


@given(st.lists(st.integers(0, 1000), unique=True).map(sorted), st.integers(1, 7), st.integers(0, 9))
def test_a_history_is_the_tail_of_what_came(times: list[int], size: int, most: int) -> None:
    history = MetricHistory(("a",), size)
    for ts_ms in times:
        history.add(ts_ms + 1, (float(ts_ms),))
    expected = [float(ts_ms) for ts_ms in times][-size:]
    assert list(history.values("a", most)) == (expected[-most:] if most else [])
    assert list(history.copy().values("a")) == expected


@given(st.lists(st.tuples(st.integers(1, 7), st.integers(1, 9))))
def test_a_history_keeps_the_newest_whatever_size_it_becomes(spans: list[tuple[int, int]]) -> None:
    history, kept, tick = MetricHistory(("a",)), list[float](), 0
    for size, ticks in spans:
        for _ in range(ticks):
            tick += 1
            history.add(tick, (float(tick),), size)
            kept = [*kept, float(tick)][-size:]
            assert list(history.values("a")) == kept == list(history.times())


def test_many_subjects_have_shorter_histories() -> None:
    assert [ticks_of_each(subjects) for subjects in (0, 8, 1600, 8000, 13_750, 10**6)] == [
        600, 600, 600, 100, 50, 50,
    ]  # fmt: skip


@given(st.text(max_size=30), st.integers(0, 40), st.booleans())
def test_a_line_has_exactly_the_width_that_it_is_fitted_to(text: str, width: int, right: bool) -> None:
    text = "".join(letter for letter in text if letter.isprintable())
    assert width_of(fit([(text, ""), ("Größe 漢字", "bold")], width, right=right)) == width


def test_bars_and_sparklines() -> None:
    assert text_of(bar(0.5, 4, "good")) == "██░░"
    assert text_of(bar(0.1, 4, "good")) == "▍░░░"
    assert text_of(bar(None, 4, "good")) == "····", "unknown is not empty"
    assert text_of(bar(7.0, 4, "good")) == "████"
    assert text_of(sparkline([0, 50, 100, nan], 6, 100)) == "  ▁▅█ "


def test_columns_give_way_to_a_narrow_terminal_and_grow_on_a_wide_one() -> None:
    def column(title: str, width: int, rank: int, grows: int = 0, comfort: int = 0) -> TableColumn[int]:
        return TableColumn(
            title, width, lambda row, _: [(str(row), "")], lambda row: row, rank, comfort, grows
        )

    all_of_them = [column("a", 4, 0), column("b", 4, 3), column("c", 4, 1), column("d", 6, 0, 99, 12)]
    kept = {
        width: [(one.title, cells) for one, cells in layout(all_of_them, width).columns]
        for width in (10, 16, 22, 27, 40)
    }
    assert kept == {
        10: [("a", 4)],
        16: [("a", 4), ("c", 4), ("d", 6)],
        22: [("a", 4), ("c", 4), ("d", 12)],
        27: [("a", 4), ("b", 4), ("c", 4), ("d", 12)],
        40: [("a", 4), ("b", 4), ("c", 4), ("d", 25)],
    }


def test_rows_whose_value_is_not_known_come_last_both_ways() -> None:
    by_value: TableColumn[float | None] = TableColumn(
        "v", 4, lambda _, __: [], lambda row: row, descending=True
    )
    assert sort_rows([1.0, None, 3.0], by_value, reverse=False) == [3.0, 1.0, None]
    assert sort_rows([1.0, None, 3.0], by_value, reverse=True) == [1.0, 3.0, None]
