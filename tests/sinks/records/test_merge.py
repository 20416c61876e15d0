"""What a stored record and one that arrives make together: exact along an accumulation, never lower after it.

The algebra is tried on records that hypothesis makes up, the writing on both databases.
"""

import random
from collections.abc import Sequence
from datetime import datetime
from functools import reduce
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, literal, select, true

from dutycycle.contract.records.derived import JobPeaks, Peak, PodPeaks
from sinks.records.merge import covers, merge
from sinks.records.query import job_peaks, pod_peaks
from sinks.records.rows import COUNTS, MAXIMA, POD_TABLE, SqlRow, job_row, pod_row
from sinks.records.store import covering
from sinks.records.tables.schema import TABLES
from tests.support.examples import examples
from tests.support.sinks import made
from tests.support.sinks.made import EARLY, LATE
from tests.support.sinks.recording import open_store

METRICS = ("gpu_util_pct", "cpu_util_pct", "power_w")
small = st.integers(0, 6)
peaks = st.dictionaries(
    st.sampled_from(METRICS), st.builds(Peak, max=small, mean=small, at_ms=small, p95=st.none() | small)
)


@st.composite
def pods(draw: st.DrawFn) -> PodPeaks:
    """Few distinct figures, so that records meet, cover and contradict one another often."""
    first = draw(small)
    named = draw(st.booleans())
    pod = made.pod("uid-1") if named else made.pod("uid-1", name="uid-1", phase="Unknown", job=None)
    return PodPeaks(
        pod=pod, first_ms=first, last_ms=first + draw(small), samples=draw(st.integers(1, 4)),
        final=named and draw(st.booleans()), metrics=draw(peaks),
        gpus=draw(st.dictionaries(st.sampled_from(("a/0", "a/1")), peaks, max_size=2)),
    )  # fmt: skip


@st.composite
def jobs(draw: st.DrawFn) -> JobPeaks:
    first = draw(small)
    names = draw(st.sets(st.sampled_from("abc"), min_size=1))
    one = made.job_peaks().pods["bert-worker-0"]
    return made.job_peaks(
        first_ms=first, last_ms=first + draw(small), final=draw(st.booleans()), metrics=draw(peaks),
        pods=dict.fromkeys(sorted(names), one),
    )  # fmt: skip


rows = st.one_of(pods().map(pod_row), jobs().map(job_row))
many = st.one_of(st.lists(pods().map(pod_row), min_size=1), st.lists(jobs().map(job_row), min_size=1))


def merged(several: Sequence[SqlRow]) -> SqlRow:
    return reduce(merge, several)


def levels(row: SqlRow) -> tuple[Any, ...]:
    """A row by what the order compares, in which rows that cover each other are equal."""
    values = row.values
    return row.named, *(values[name] for name in ("first_at", "last_at", COUNTS[row.table], "final", *MAXIMA))


def grown(row: SqlRow) -> dict[str, Any]:
    """Of a row's columns those that only grow, with nothing measured as the least."""
    names = ("last_at", *MAXIMA, *(["samples"] if row.table == POD_TABLE else []))
    found = {name: -1 if row.values[name] is None else row.values[name] for name in names}
    first_s = datetime.fromisoformat(row.values["first_at"]).timestamp()
    return found | {"first_at": -first_s, "named": row.named}


@given(st.one_of(st.tuples(*[pods().map(pod_row)] * 3), st.tuples(*[jobs().map(job_row)] * 3)))
def test_covering_is_an_order(three: tuple[SqlRow, SqlRow, SqlRow]) -> None:
    one, two, last = three
    assert covers(one, one)
    assert not (covers(one, two) and covers(two, last)) or covers(one, last)
    assert not (covers(one, two) and covers(two, one)) or levels(one) == levels(two)


@pytest.mark.slow
@given(st.one_of(st.tuples(*[pods().map(pod_row)] * 2), st.tuples(*[jobs().map(job_row)] * 2)))
def test_covering_is_the_same_in_sql(two: tuple[SqlRow, SqlRow]) -> None:
    old, new = two
    ours, theirs = in_sql(new, "new"), in_sql(old, "old")
    query = select(covering(old.table, ours.c, theirs.c)).select_from(ours.join(theirs, true()))
    with create_engine("sqlite://").connect() as connection:
        assert bool(connection.scalar(query)) == covers(new, old)


def in_sql(row: SqlRow, name: str) -> Any:
    """A row's columns as SQL sees them."""
    plain = [one for one in TABLES[row.table].c if one.name != "record"]
    values = [literal(row.values[one.name], one.type).label(one.name) for one in plain]
    return select(*values).subquery(name)


@given(many, st.randoms(use_true_random=False))
def test_order_and_repeats_do_not_matter(several: list[SqlRow], chance: random.Random) -> None:
    again = several + chance.choices(several, k=len(several))
    chance.shuffle(again)
    assert grown(merged(again)) == grown(merged(several))


@given(many)
def test_what_is_stored_is_never_lower_than_anything_that_came(several: list[SqlRow]) -> None:
    stored = grown(merged(several))
    for row in several:
        assert all(stored[name] >= value for name, value in grown(row).items())


@pytest.mark.slow
@given(st.lists(pods().map(pod_row), min_size=1))
def test_samples_and_means_are_of_one_record_that_came(several: list[SqlRow]) -> None:
    stored = merged(several).values
    assert stored["samples"] == max(row.values["samples"] for row in several)
    for metric in METRICS[:2]:
        for figure in (f"mean_{metric}", f"p95_{metric}"):
            assert stored[figure] in {row.values[figure] for row in several}


def life(seed: int, length: int = 20) -> list[PodPeaks]:
    """The records of one accumulation, as a pod's operator makes them: everything only grows."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    first, last, samples, tops = 500_000, 500_000, 0, dict.fromkeys(METRICS, 0.0)
    records = []
    for _ in range(length):
        first, last = first - chance.choice((0, 0, 1000)), last + chance.choice((0, 1000))
        samples += chance.randint(0, 3)
        tops = {metric: max(top, chance.uniform(0, 100)) for metric, top in tops.items()}
        figures = {metric: made.peak(top, chance.uniform(0, top)) for metric, top in tops.items()}
        records.append(
            made.pod_peaks(
                first_ms=first, last_ms=last, samples=samples, metrics=figures, gpus={"a/0": figures}
            )
        )
    return records


@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
@settings(max_examples=examples(50))
def test_along_one_accumulation_the_newest_stays_as_it_is(seed: int, chance: random.Random) -> None:
    chain = [pod_row(record) for record in life(seed)]
    assert all(covers(new, old) for old, new in pairwise(chain))
    assert merged(chain) is chain[-1]
    shuffled = chance.choices(chain[:-1], k=30)
    assert merged([*shuffled, chain[-1]]) is chain[-1]
    assert levels(merged([chain[-1], *shuffled])) == levels(chain[-1])


BOTH = made.pod_peaks(
    first_ms=1_000, last_ms=119_000, samples=30, final=False, processes=None,
    metrics={
        "cpu_util_pct": made.peak(150, 100, 96_000), "gpu_util_pct": made.peak(97, 20, 3_000),
        "temp_c": made.peak(61, 50, 2_000),
    },
    gpus={
        "a/0": {"gpu_util_pct": made.peak(97, 40, 3_000)}, "a/1": {"gpu_util_pct": made.peak(60, 20, 95_000)},
    },
)  # fmt: skip


def put(url: str, *batches: Sequence[PodPeaks | JobPeaks]) -> None:
    """Write batch after batch, each in a store of its own, as a worker that was started again would."""
    for batch in batches:
        store = open_store(url)
        rows = [pod_row(one) if isinstance(one, PodPeaks) else job_row(one) for one in batch]
        assert store.put(rows) == []
        store.close()


def test_an_accumulation_that_was_lost_is_joined(records_url: str) -> None:
    early, late = made.pod_peaks(**EARLY), made.pod_peaks(**LATE)
    put(records_url, [early], [late])
    assert pod_peaks(records_url) == [BOTH]
    put(records_url, [early, late], [late, early])
    assert pod_peaks(records_url) == [BOTH]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_orders_and_batches_of_two_accumulations_end_alike(records_url: str, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - not a secret
    early = [
        made.pod_peaks(**EARLY | {"last_ms": at, "samples": at // 1000, "final": False})
        for at in (5_000, 8_000)
    ]
    late = [made.pod_peaks(**LATE | {"last_ms": at, "samples": at // 10_000}) for at in (100_000, 110_000)]
    last = [made.pod_peaks(**EARLY), made.pod_peaks(**LATE)]
    every = [*early, *late, *last, *chance.choices([*early, *late], k=6)]
    chance.shuffle(every)
    cuts = sorted(chance.choices(range(len(every)), k=3))
    put(records_url, *(every[a:b] for a, b in pairwise([0, *cuts, len(every)])))
    assert pod_peaks(records_url) == [BOTH]


def test_a_final_record_stays_final_and_named_when_a_stranger_of_its_uid_appears(records_url: str) -> None:
    """The state was evicted with the pod's name in it; a sample that was on its way comes then."""
    stranger = made.pod("uid-1", name="uid-1", phase="Unknown", job=None, namespace=None)
    straggler = made.pod_peaks(**LATE | {"pod": stranger})
    put(records_url, [made.pod_peaks(**EARLY)], [straggler])
    (shown,) = pod_peaks(records_url)
    assert (shown.pod, shown.final) == (made.pod("uid-1"), True)
    assert (shown.metrics["gpu_util_pct"].max, shown.metrics["cpu_util_pct"].max) == (97, 150)
    named = made.pod_peaks(**LATE | {"first_ms": 500, "metrics": BOTH.metrics, "final": True})
    put(records_url, [named])
    assert pod_peaks(records_url) == [named], "one that says all of it is kept as it is"


def test_an_older_version_of_either_accumulation_changes_nothing(records_url: str) -> None:
    put(records_url, [made.pod_peaks(**EARLY)], [made.pod_peaks(**LATE)])
    put(records_url, [made.pod_peaks(**LATE | {"last_ms": 95_000, "samples": 6})])
    put(records_url, [made.pod_peaks(**EARLY | {"last_ms": 2_000, "samples": 2, "final": False})])
    assert pod_peaks(records_url) == [BOTH]


@pytest.mark.slow
def test_of_many_lost_accumulations_every_maximum_is_kept(records_url: str) -> None:
    for i in range(24):
        figures = {"gpu_util_pct": made.peak(90 - i, 50 - i, 10_000 * i)}
        record = made.pod_peaks(
            first_ms=10_000 * i, last_ms=10_000 * i + 5_000, samples=10 + i, metrics=figures
        )
        put(records_url, [record])
    (shown,) = pod_peaks(records_url)
    assert (shown.first_ms, shown.last_ms, shown.samples) == (0, 235_000, 33)
    assert shown.metrics["gpu_util_pct"] == made.peak(90, 27, 0)


def test_a_job_whose_state_was_evicted_keeps_the_pods_of_before(records_url: str) -> None:
    one = made.job_peaks().pods["bert-worker-0"]
    before = made.job_peaks(
        final=True, pods={"w-0": one, "w-1": one}, metrics={"cpu_util_pct": made.peak(300)}
    )
    after = made.job_peaks(first_ms=50_000, last_ms=60_000, final=True, pods={"w-2": one})
    put(records_url, [before], [after], [before])
    (shown,) = job_peaks(records_url)
    assert set(shown.pods) == {"w-0", "w-1", "w-2"}
    assert (shown.first_ms, shown.last_ms, shown.final) == (1_000, 60_000, True)
    assert shown.metrics["cpu_util_pct"].max == 300
