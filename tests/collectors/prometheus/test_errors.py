"""Goal: a Prometheus that is away, refuses or is none is told in words that help, and gives no values."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from collectors.base import Tick
from collectors.prometheus.answers import AnswerReader
from collectors.prometheus.collector import PrometheusApi, PrometheusCollector
from collectors.prometheus.query import AwayError, QueryError, TooMuchError
from collectors.prometheus.series import ScrapedSeries, parse_matrix, parse_vector
from dutycycle.contract.codec import decode
from dutycycle.contract.records.samples import CgroupSample, NvmlSample
from dutycycle.contract.settings.load import load
from dutycycle.telemetry.events import PROMETHEUS_INCOMPLETE, PROMETHEUS_QUERY_FAILED, Telemetry
from tests.support.data.prometheus_samples import IN_POD
from tests.support.data.prometheus_ticks import SCRAPE_S, Records, Start
from tests.support.fakes.exporter_pages import dcgm
from tests.support.servers.exposition import serve_metrics
from tests.support.servers.loopback import serve_http
from tests.support.servers.prometheus import scrape


def test_prometheus_goes_away(prometheus: Start) -> None:
    with serve_metrics(dcgm("gpu-a", util_pct=10, used_bytes=0, energy_j=0)) as page:
        server = prometheus(scrape([page.target], SCRAPE_S))
        records = Records(server.url)
        records.until(lambda: records.gpus)
        server.stop()
    seen = len(records.gpus)
    with pytest.raises(QueryError, match="does not answer"):
        records.tick()
    assert len(records.gpus) == seen
    assert records.telemetry.conditions == {}


class Scripted(PrometheusApi):
    """A Prometheus that answers the query for GPUs from a script; None stands for a failure."""

    def __init__(self, *answers: list[tuple[int, float]] | None) -> None:
        self.answers = iter(answers)

    def samples(self, selector: str, seconds: float, deadline_s: float) -> list[ScrapedSeries]:
        if "DCGM" not in selector:
            raise QueryError("nothing else is asked for here")
        if (points := next(self.answers)) is None:
            raise QueryError("away")
        labels = {"__name__": "DCGM_FI_DEV_GPU_UTIL", "UUID": "GPU-1", "gpu": "0", "Hostname": "gpu-a"}
        return [ScrapedSeries(labels, tuple(points))]

    def now(self, selector: str, deadline_s: float) -> list[ScrapedSeries]:
        return []

    def help_texts(self, names: Iterable[str], timeout_s: int) -> dict[str, list[str]]:
        return {name: [] for name in names}

    def incomplete(self) -> list[str]:
        return []

    def close(self) -> None:
        """Nothing is held."""


def test_after_an_outage_the_time_in_between_is_not_made_up_for() -> None:
    scripted = Scripted([(1000, 1)], [(1000, 1), (2000, 2)], None, [(60_000, 3)], [(60_000, 3), (61_000, 4)])
    collector = PrometheusCollector(scripted, Telemetry("test"), AnswerReader(), uid_of=None, retire_s=60)
    given: list[Any] = []
    for seq in range(5):
        tick = Tick(node="me", collector="c", seq=seq, ts_ms=0, interval_ms=1000, monotonic_s=seq)
        try:
            of = [decode(NvmlSample, one.value or b"", one.topic) for one in collector.collect(tick)]
            given.append([(one.ts_ms, one.gpus[0].gpu_util_pct, one.interval_ms) for one in of])
        except QueryError:
            given.append("away")
    assert given == [[], [(2000, 2, 1000)], "away", [], [(61_000, 4, 1000)]]


class OfContainers(Scripted):
    """A Prometheus whose clock is at ``now_s``: cAdvisor is scraped at 0, 30 and so on until ``until_s``,
    node_exporter 20 s later each time."""

    now_s, until_s = 0, 120

    def samples(self, selector: str, seconds: float, deadline_s: float) -> list[ScrapedSeries]:
        if "DCGM" in selector:
            return []
        name, first_s, until_s, labels = (
            ("container_cpu_usage_seconds_total", 0, self.until_s, IN_POD)
            if "container_" in selector
            else ("node_network_receive_bytes_total", 20, 1000, {"device": "eth0"})
        )
        at = range(first_s, min(self.now_s, until_s) + 1, 30)
        points = tuple((1000 * second, 10.0 * second) for second in at)
        return [ScrapedSeries({"__name__": name, "node": "a", **labels}, points)]


def test_a_scrape_of_a_node_waits_for_that_of_its_containers_while_these_come() -> None:
    scripted = OfContainers()
    collector = PrometheusCollector(scripted, Telemetry("test"), AnswerReader(), uid_of=None, retire_s=60)
    given: dict[int, tuple[bool, bool]] = {}
    for scripted.now_s in range(0, 240, 15):
        tick = Tick(node="me", collector="c", seq=0, ts_ms=0, interval_ms=15_000, monotonic_s=scripted.now_s)
        for one in collector.collect(tick):
            if one.topic == "cgroup-samples":
                use = decode(CgroupSample, one.value or b"", one.topic)
                given[use.ts_ms // 1000] = bool(use.pods), use.host.net_rx_bytes_per_s is not None
    both, host = (True, True), (False, True)
    assert given == {30: (True, False), 60: both, 90: both, 120: both, 170: host, 200: host}


def test_nothing_listens_there() -> None:
    with pytest.raises(QueryError, match=r"^http://127\.0\.0\.1:1 does not answer: .*refused"):
        Records("http://user:hunter2@127.0.0.1:1").tick()


NO_SAMPLES = b'"data":{"resultType":"matrix","result":[]}'


@contextmanager
def answering(code: int, body: bytes, only: str = "") -> Iterator[str]:
    """A server that answers queries that contain ``only`` like this, and others with no samples."""
    nothing = b'{"status":"success",' + NO_SAMPLES + b"}"
    with serve_http(lambda request: (code, body) if only in request.path else (200, nothing)) as place:
        yield f"http://user:hunter2@{place}"


@pytest.mark.parametrize(
    ("code", "body", "says"),
    [
        (401, b"Unauthorized", r"refuses the credentials \(HTTP 401\): give DUTYCYCLE_PROMETHEUS_USERNAME"),
        (401, b"no org id", r"no tenant\): give DUTYCYCLE_PROMETHEUS_HEADERS='X-Scope-OrgID: <tenant>'"),
        (401, b'{"error":"no org id"}', r"no tenant\): give DUTYCYCLE_PROMETHEUS_HEADERS"),
        (403, b"Forbidden", r"refuses the credentials \(HTTP 403\)"),
        (404, b"not found", r"is no Prometheus \(HTTP 404\): DUTYCYCLE_PROMETHEUS is the URL above /api/v1"),
        (422, b"too many samples", r"HTTP Status Code 422 .*too many samples"),
        (503, b"starting", r"HTTP Status Code 503"),
        (200, b"<html>login</html>", r"is no Prometheus \(its answer is no JSON\)"),
        (200, b'{"data":{"result":[{"metric":{"__name__', r"cut its answer off after 39 characters"),
        (200, b"[]", r"is no Prometheus \(its answer holds no samples\)"),
        (200, b"{}", r"is no Prometheus \(its answer holds no samples\)"),
        (
            200,
            b'{"status":"error","errorType":"timeout","error":"query timed out"}',
            r": timeout query timed out",
        ),
        (
            200,
            b'{"data":{"result":[{"metric":{},"values":[[1,"1"]]}]}}',
            r"answers with series that have no name \(__name__\): a proxy between",
        ),
        (200, b"[" * 100_000, r"is no Prometheus \(its answer holds no samples\)"),
        (200, b'{"data":{"result":[{"metric":{}}]}}', r"is no Prometheus \(its answer holds no samples\)"),
    ],
)
def test_what_answers_is_no_help(code: int, body: bytes, says: str) -> None:
    with answering(code, body) as url:
        records = Records(url)
        with pytest.raises(QueryError, match=says) as caught:
            records.tick()
        records.collector.close()
    assert "hunter2" not in str(caught.value)
    assert records.telemetry.conditions == {}


GOOD = {"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL"}, "values": [[5, "90"], [10, "91"]]}


@pytest.mark.parametrize(
    ("odd", "points", "no_numbers"),
    [
        ({"values": [[5, "1"], [10, "x"]]}, 1, 1),
        ({"values": [[5, None], [10, "2"], [15, {}]]}, 1, 2),
        ({"values": [[5, "NaN"], [10, "2"]]}, 1, 1),
        ({"histograms": [[5, {"count": "7"}]]}, 0, 1),
        ({"values": [[5, "1"]], "histograms": [[10, {"count": "7"}]]}, 1, 0),
    ],
)
def test_a_sample_that_is_no_number_is_counted_and_the_others_are_kept(
    odd: dict[str, Any], points: int, no_numbers: int
) -> None:
    first, second = parse_matrix([{"metric": {"__name__": "odd"}, **odd}, GOOD])
    assert (len(first.points), len(first.no_numbers)) == (points, no_numbers)
    assert [value for _, value in second.points] == [90, 91]


def test_a_moment_of_a_histogram_is_no_number() -> None:
    histogram = {"metric": {"__name__": "odd"}, "histogram": [5, {"count": "7"}]}
    first, second = parse_vector([histogram, {"metric": {"__name__": "up"}, "value": [5, "1"]}])
    assert (first.points, len(first.no_numbers), second.points) == ((), 1, ((5000, 1.0),))


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (b'"bad_data","error":"parse error"', QueryError),
        (b'"execution","error":"found duplicate series"', QueryError),
        (b'"execution","error":"query processing would load too many samples"', TooMuchError),
        (b'"unavailable","error":"no store"', AwayError),
    ],
)
def test_an_error_in_a_success_is_asked_again_where_that_may_help(
    said: bytes, kind: type[QueryError]
) -> None:
    with answering(200, b'{"status":"error","errorType":' + said + b"}") as url:
        records = Records(url)
        with pytest.raises(QueryError) as caught:
            records.tick()
        records.collector.close()
    assert type(caught.value) is kind


def test_null_is_an_answer_without_samples() -> None:
    with answering(200, b'{"status":"success","data":{"resultType":"matrix","result":null}}') as url:
        records = Records(url)
        records.tick()
        records.collector.close()
    assert records.telemetry.conditions == {}


def test_one_query_that_fails_is_told_and_the_others_go_on() -> None:
    with answering(422, b"too many samples", only="container_cpu") as url:
        records = Records(url)
        records.tick()
        records.tick()
        records.collector.close()
    assert [name for _, name in records.telemetry.conditions] == ["containers"]
    assert records.telemetry.count(PROMETHEUS_QUERY_FAILED) == 1
    assert "hunter2" not in str(records.telemetry.conditions)


def test_a_token_is_sent_as_it_is_now_and_never_shown(tmp_path: Path) -> None:
    seen: list[str | None] = []

    def refuse(request: BaseHTTPRequestHandler) -> tuple[int, str]:
        seen.append(request.headers["Authorization"])
        return 403, ""

    file = tmp_path / "token"
    with serve_http(refuse) as place:
        file.write_text("t0ken\n")
        settings = load({"DUTYCYCLE_PROMETHEUS_TOKEN_FILE": str(file)})
        records = Records(f"http://{place}", prometheus_token=settings.prometheus_token)
        for token in ("t0ken", "rotated"):
            file.write_text(token)
            seen.clear()
            with pytest.raises(QueryError, match=r"HTTP 403") as caught:
                records.tick()
            assert set(seen) == {f"Bearer {token}"}
        records.collector.close()
    assert "rotated" not in str(caught.value)
    assert "t0ken" not in repr(settings)


def test_headers_go_with_each_query_as_they_are_now(tmp_path: Path) -> None:
    seen: list[tuple[str | None, str | None]] = []

    def refuse(request: BaseHTTPRequestHandler) -> tuple[int, str]:
        seen.append((request.headers["X-Scope-OrgID"], request.headers["Authorization"]))
        return 403, ""

    file = tmp_path / "headers"
    file.write_text("X-Scope-OrgID: team-a\n")
    settings = load({"DUTYCYCLE_PROMETHEUS_HEADERS_FILE": str(file)})
    with serve_http(refuse) as place:
        records = Records(f"http://user:hunter2@{place}", prometheus_headers=settings.prometheus_headers)
        for text, tenant in (("X-Scope-OrgID: team-a", "team-a"), ("X-Scope-OrgID: b", "b"), ("half", "b")):
            file.write_text(text)
            seen.clear()
            with pytest.raises(QueryError, match=r"HTTP 403"):
                records.tick()
            assert set(seen) == {(tenant, "Basic dXNlcjpodW50ZXIy")}
        records.collector.close()
    assert "team-a" not in repr(settings)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (b'"warnings":["receive series from store-2: deadline exceeded"],', "store-2: deadline exceeded"),
        (b'"isPartial":true,', "isPartial"),
        (b'"isPartial":false,"warnings":[],', None),
        (b'"warnings":["PromQL warning: metric might not be a counter"],', None),
        (b'"infos":["warnings"],', None),
        (b"", None),
    ],
)
def test_an_answer_that_is_not_whole_is_told_until_it_is(more: bytes, says: str | None) -> None:
    body = b'{"status":"success",' + more + NO_SAMPLES + b"}"
    with answering(200, body, only="container_cpu") as url:
        records = Records(url)
        records.tick()
        found = records.telemetry.conditions.get((PROMETHEUS_INCOMPLETE.name, "answers"))
        records.collector.close()
    assert (says in found) if says and found else found == says


def test_one_cluster_alone_is_asked_for() -> None:
    asked: list[str] = []

    def note(request: BaseHTTPRequestHandler) -> tuple[int, bytes]:
        asked.extend(parse_qs(urlsplit(request.path).query).get("query", []))
        return 200, b'{"status":"success",' + NO_SAMPLES + b"}"

    with serve_http(note) as place:
        records = Records(f"http://{place}", prometheus_cluster="cluster=eu-1")
        records.tick()
        records.collector.close()
    assert len(asked) == 4
    assert all(query.count('cluster="eu-1"') == query.count("{") for query in asked)
    assert 'kube_pod_status_phase{cluster="eu-1"} == 1' in asked[-1]
    assert records.reader.clusters.label is None
