"""Goal: a figure is what was last set, added up or read; one that is not known is absent, never 0."""

import threading
from collections.abc import Iterator, Mapping

from telemetry.meter import Labels, Meter, Metric, product

UP = Metric("up", "for the test", ("source",))
AGE = Metric("age_seconds", "for the test")
DONE = Metric("done_total", "for the test", ("topic",))


def test_a_name_says_what_a_metric_is() -> None:
    assert [one.is_counter for one in (UP, AGE, DONE)] == [False, False, True]


def test_set_and_add() -> None:
    meter = Meter()
    meter.set(UP, 1, source="a")
    meter.set(UP, 0, source="b")
    meter.set(UP, 0, source="a")
    meter.add(DONE, topic="t")
    meter.add(DONE, 2, topic="t")
    assert meter.now() == {UP: {("a",): 0, ("b",): 0}, DONE: {("t",): 3}}


def test_what_is_read_is_read_each_time() -> None:
    values: Iterator[float | Mapping[Labels, float] | None] = iter([None, 3, {("x",): 1.0}])
    meter = Meter()
    meter.read(UP, lambda: next(values))
    assert meter.now() == {UP: {}}, "not known yet"
    assert meter.now() == {UP: {(): 3.0}}
    assert meter.now() == {UP: {("x",): 1.0}}
    assert meter.now() == {UP: {}}, "reading that fails makes it absent, and the others stay"


def test_what_is_expected_begins_at_zero_and_keeps_what_it_has() -> None:
    meter = Meter()
    meter.add(DONE, 5, topic="a")
    meter.expect(DONE, *product(["a", "b"]))
    meter.expect(AGE)
    meter.expect(UP)
    assert meter.now() == {DONE: {("a",): 5, ("b",): 0}, AGE: {(): 0}, UP: {}}


def test_every_combination() -> None:
    assert product(["a", "b"], iter(["x", "y"])) == [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]
    assert product() == [()]


def test_no_increment_is_lost_between_threads() -> None:
    meter = Meter()

    def count() -> None:
        for number in range(5000):
            meter.add(DONE, topic=str(number % 7))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(meter.now()[DONE].values()) == 20_000
