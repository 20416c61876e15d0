"""What autoscalers may ask for, and what they are told of a wrong name."""

import pytest

from sinks.adapter.metric_names import MetricName, UnknownMetricError, listed, parse


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("gpu_util_pct", MetricName("gpu_util_pct")),
        ("gpu_util_pct_max", MetricName("gpu_util_pct", is_max=True)),
        ("sm_active_pct_in_30s", MetricName("sm_active_pct", horizon_s=30)),
        ("gpu_util_pct_max_in_86400s", MetricName("gpu_util_pct", is_max=True, horizon_s=86_400)),
    ],
)
def test_a_name_says_what_is_meant(text: str, name: MetricName) -> None:
    assert (parse(text), str(name)) == (name, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gpu_util_pct_in_99999s", "gpu_util_pct_in_99999s: forecasts reach 86400 s, the longest cycle"),
        ("gpu_utl_pct", "there is no metric gpu_utl_pct; did you mean gpu_util_pct?"),
        ("gpu_utl_pct_max_in_300s", "there is no metric gpu_utl_pct; did you mean gpu_util_pct?"),
        ("gpu_util_pct_in_0s", "there is no metric gpu_util_pct_in_0s; did you mean gpu_util_pct?"),
        ("gpu_util_pct_in_5s_max", "there is no metric gpu_util_pct_in_5s; did you mean gpu_util_pct?"),
        ("_max", "there is no metric _max"),
        ("requests", "there is no metric requests"),
    ],
)
def test_a_metric_that_can_never_be_is_no_stall(text: str, said: str) -> None:
    with pytest.raises(UnknownMetricError) as refused:
        parse(text)
    assert str(refused.value) == said


def test_what_is_listed_can_be_asked_for() -> None:
    assert listed(["power_w"], of_objects=False) == ["power_w", "power_w_in_300s"]
    names = listed(["power_w"], of_objects=True)
    assert names == ["power_w", "power_w_in_300s", "power_w_max", "power_w_max_in_300s"]
    assert [str(parse(name)) for name in names] == names
    assert listed(["power_w"], of_objects=True, forecast=False) == ["power_w", "power_w_max"]
