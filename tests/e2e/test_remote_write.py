"""Goal: a real Prometheus that is written to has the series of one that scrapes, also after kills."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.test_sink_metrics import NODES, Env, Feed, counters, create_topics, env, pod, publish
from tests.support.processes.commands import mortal
from tests.support.processes.figures import Process, read_page
from tests.support.servers.kafka.certificates import make_certificates
from tests.support.servers.prometheus import PASSWORD, USER, Prometheus, scrape
from tests.support.waiting import wait_until

__all__ = ["env"]
OURS = '{__name__=~"dutycycle_(gpu|pod|job)_.+"}'
COUNTERS = '{__name__=~"dutycycle_pod_gpu_.+_total"}'
Start = Callable[..., Prometheus]


def series(server: Prometheus, expression: str = OURS) -> dict[frozenset[tuple[str, str]], str]:
    """The values now, by their labels; where it was scraped is not a label of the receiver."""
    return {
        frozenset((name, value) for name, value in one["metric"].items() if name != "instance"): one["value"][
            1
        ]
        for one in server.query(expression)
    }


def moments(server: Prometheus) -> list[float]:
    """The times of the samples of the last minutes."""
    (found,) = server.query("dutycycle_ready[5m]")
    return [at for at, _ in found["values"]]


@pytest.fixture
def receiver(prometheus: Start, tmp_path: Path, env: Env) -> Prometheus:
    """It speaks TLS, and wants a password; ``env`` says so."""
    made = make_certificates(tmp_path)
    server = prometheus(scrape([]), certificates=made, options=["--web.enable-remote-write-receiver"])
    secret = tmp_path / "password"
    secret.write_text(PASSWORD)
    env |= {
        "DUTYCYCLE_REMOTE_WRITE": f"{server.url}/api/v1/write",
        "DUTYCYCLE_REMOTE_WRITE_CA": str(made.authority),
        "DUTYCYCLE_REMOTE_WRITE_USERNAME": USER,
        "DUTYCYCLE_REMOTE_WRITE_PASSWORD_FILE": str(secret),
        "DUTYCYCLE_REMOTE_WRITE_INTERVAL": "1s",
        "DUTYCYCLE_METRICS_STALE": "12s",
    }
    return server


def test_the_series_are_those_of_a_scrape_and_end_with_them(
    env: Env, receiver: Prometheus, prometheus: Start, tmp_path: Path
) -> None:
    create_topics(env)
    publish(env, [("pods", f"pod-{node}", pod(node)) for node in NODES])
    feed, log = Feed(env), tmp_path / "sink.log"
    with mortal("sink", "--metrics", env=env, log=log):
        config = scrape([])
        target = {"job_name": "dutycycle-metrics", "honor_labels": True}
        config["scrape_configs"] = [target | {"static_configs": [{"targets": [str(Process(log).address)]}]}]
        scraper = prometheus(config)
        feed.send(20)
        fed_s = time.monotonic()

        def same() -> bool:
            nonlocal fed_s
            if time.monotonic() - fed_s > 8:  # on a slow machine, before the series end
                feed.send(1)
                fed_s = time.monotonic()
            found = series(receiver)
            return len(found) >= 9 * len(NODES) and found == series(scraper)

        wait_until(same, lambda: f"{series(receiver)}\n{series(scraper)}")
        names = {dict(labels)["__name__"] for labels in series(receiver)}
        assert {"dutycycle_gpu_utilization_ratio", "dutycycle_pod_gpu_busy_seconds_total"} <= names
        own = series(receiver, '{__name__=~"dutycycle_sink_up|process_.+"}')
        assert {dict(labels)["job"] for labels in own} == {"dutycycle-metrics"}
        ((_, newest),) = series(receiver, "max(timestamp(dutycycle_gpu_utilization_ratio))").items()
        assert float(newest) <= time.time(), "no sample lies in the future"
        begun_s = time.monotonic()
        wait_until(lambda: not series(receiver), lambda: str(series(receiver)))
        assert time.monotonic() - begun_s < 240, "an end that is told, not five minutes without a sample"
        assert series(receiver, "dutycycle_ready"), "the sink itself goes on"


def test_a_receiver_and_a_sink_that_are_killed(env: Env, receiver: Prometheus, tmp_path: Path) -> None:
    env["DUTYCYCLE_METRICS_STALE"] = "10m"  # no series ends while the receiver is away
    create_topics(env)
    publish(env, [("pods", f"pod-{node}", pod(node)) for node in NODES])
    feed, log = Feed(env), tmp_path / "sink.log"

    def exact() -> bool:
        found = {}
        for labels, value in series(receiver, COUNTERS).items():
            of = dict(labels)
            name = of["__name__"].removeprefix("dutycycle_pod_gpu_").removesuffix("_total")
            found[name, of["node"]] = float(value)
        return found == feed.expected

    def wrong() -> str:
        return f"{series(receiver, COUNTERS)}, {feed.expected}, {log.read_text()}"

    with mortal("sink", "--metrics", env=env, log=log):
        feed.send(20)
        wait_until(exact, wrong)
        receiver.kill()
        killed_s = time.time()
        feed.send(5)
        wait_until(lambda: 'dutycycle_sink_up{sink="remote_write"} 0.0' in read_page(log), log.read_text)
        wait_until(lambda: counters(read_page(log)) == feed.expected, wrong)
        back_s = time.time()
        receiver.start()
        wait_until(exact, wrong)
        wait_until(
            lambda: 'dutycycle_pending_writes{sink="remote_write"} 0.0' in read_page(log), log.read_text
        )
        assert any(killed_s < at < back_s for at in moments(receiver)), "what waited has come, with its time"
        assert 'dutycycle_samples_dropped_total{reason="refused"} 0.0' in read_page(log)
        before = series(receiver, COUNTERS).keys()
    feed.send(5)
    with mortal("sink", "--metrics", env=env, log=tmp_path / "second.log"):
        wait_until(exact, wrong)
        assert series(receiver, COUNTERS).keys() == before, "the same series go on"
        assert set(series(receiver, "resets(dutycycle_pod_gpu_busy_seconds_total[10m])").values()) == {"0"}
