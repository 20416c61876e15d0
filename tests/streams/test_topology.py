"""The stages that a worker and a replay run, and the settings that they are refused with."""

import pytest

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.load import load
from streams.app import changelog_topics
from streams.topology import stages

HOUR_MS = 3_600_000


def test_how_long_keys_stay() -> None:
    found = {stage.name: stage.evict_ms for stage in stages(load({}))}
    assert found == {"nvml": 24 * HOUR_MS, "cgroup": 24 * HOUR_MS, "cuda": 24 * HOUR_MS, "pods": None,
                     "processes": None, "health": 24 * HOUR_MS,
                     "pod-peaks": 72 * HOUR_MS, "job-peaks": 168 * HOUR_MS,
                     "insights": 72 * HOUR_MS, "job-insights": 168 * HOUR_MS}  # fmt: skip


def test_a_stage_without_state_has_no_changelog() -> None:
    settings = load({})
    assert set(changelog_topics(settings, stages(settings))) == {
        f"dutycycle.state-{name}"
        for name in ("nvml", "cgroup", "cuda", "health", "pod-peaks", "job-peaks", "insights", "job-insights")
    }


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"retire": "20s"}, "DUTYCYCLE_RETIRE=20s: expected at least the longest window"),
        ({"evict": "5m"}, "DUTYCYCLE_EVICT=300s: expected at least DUTYCYCLE_RETIRE, 600s"),
        ({"evict": "4d"}, "DUTYCYCLE_EVICT_PODS=259200s: expected at least DUTYCYCLE_EVICT, 345600s"),
        (
            {"evict_jobs": "2d"},
            "DUTYCYCLE_EVICT_JOBS=172800s: expected at least DUTYCYCLE_EVICT_PODS, 259200s",
        ),
    ],
)
def test_limits_that_do_not_go_together(flags: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        stages(load({}, flags))
    assert str(caught.value).startswith(message)
