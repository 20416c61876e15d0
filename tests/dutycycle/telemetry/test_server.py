"""Goal: the pages answer as HTTP ought to, to anybody who asks, whatever other clients do."""

import asyncio
import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from dutycycle.contract.settings.secret import Secret
from dutycycle.telemetry import server
from dutycycle.telemetry.endpoint import Address, address_of, parse
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.server import MOST, HttpPages, ListenError, Server
from dutycycle.telemetry.watchdog import StallDetector, StallLimits

ANY = Address("127.0.0.1", 0)
Answer = tuple[int, dict[str, str], str]


@contextmanager
def served(telemetry: Telemetry | None = None) -> Iterator[Address]:
    pages = Server(ANY, HttpPages(telemetry or well()))
    pages.start()
    try:
        yield pages.address
    finally:
        pages.close()


def well() -> Telemetry:
    telemetry = Telemetry("test")
    telemetry.status.waiting = None
    return telemetry


def ask(address: Address, path: str, method: str = "GET") -> Answer:
    connection = http.client.HTTPConnection(*address, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "/healthz", 200, "healthy\n"),
        ("GET", "/healthz?verbose", 200, "healthy\n"),
        ("HEAD", "/healthz", 200, ""),
        ("GET", "/readyz", 200, "ready\n"),
        ("GET", "/", 404, "there are /healthz, /readyz, /metrics\n"),
        ("GET", "/../etc/passwd", 404, "there are /healthz, /readyz, /metrics\n"),
        ("GET", "/table/nvml", 404, "there are /healthz, /readyz, /metrics\n"),
        ("HEAD", "/x", 404, ""),
        ("POST", "/healthz", 405, "GET and HEAD are all that there is\n"),
        ("DELETE", "/metrics", 405, "GET and HEAD are all that there is\n"),
        ("BREW", "/metrics", 501, "Unsupported method ('BREW')\n"),
    ],
)
def test_what_is_answered(method: str, path: str, status: int, body: str) -> None:
    with served() as address:
        found = ask(address, path, method)
    assert (found[0], found[2]) == (status, body)
    assert found[1]["Server"] == "dutycycle"
    if status == 405:
        assert found[1]["Allow"] == "GET, HEAD"
    if method == "HEAD":
        assert int(found[1]["Content-Length"]) > 0


def test_metrics_are_prometheus_text() -> None:
    with served() as address:
        status, headers, body = ask(address, "/metrics")
    assert status == 200
    assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert "process_resident_memory_bytes " in body


def test_the_tokens_file_is_read_for_a_bearer_alone(tmp_path: Path) -> None:
    token = Secret("old", str(tmp_path / "token"))
    (tmp_path / "token").write_text("new")
    pages = HttpPages(well(), token)
    assert [pages.at("/metrics", asks).status for asks in ("", "Basic new", "new")] == [401, 401, 401]
    assert token.text == "old"
    assert [pages.at("/metrics", asks).status for asks in ("Bearer old", "bearer new")] == [401, 200]


def test_what_is_wrong_is_said_in_one_line() -> None:
    telemetry = well()
    with served(telemetry) as address:
        telemetry.status.ready["group"] = lambda: "rebalancing\nfor 40 s\r\nX-Evil: 1"
        assert ask(address, "/healthz")[::2] == (200, "healthy\n")
        assert ask(address, "/readyz")[::2] == (503, "group: rebalancing for 40 s X-Evil: 1\n")
        telemetry.status.alive["event loop"] = lambda: "blocked for 31 s"
        for path in ("/healthz", "/readyz"):
            assert ask(address, path)[::2] == (503, "event loop: blocked for 31 s\n")


async def test_a_blocked_event_loop_is_seen_from_outside() -> None:
    telemetry, now_s = well(), 100.0
    detector = telemetry.stall_detector = StallDetector(clock=lambda: now_s)
    telemetry.status.alive["event loop"] = detector.loop_stalled
    with served(telemetry) as address:
        async with detector.watching():
            assert (await asyncio.to_thread(ask, address, "/healthz"))[0] == 200
            now_s += StallLimits().said_s + 1
            assert ask(address, "/healthz")[0] == 503, "the event loop does nothing but ask meanwhile"
            async with asyncio.timeout(240):
                while (await asyncio.to_thread(ask, address, "/healthz"))[0] != 200:  # noqa: ASYNC110
                    await asyncio.sleep(0.05)


def test_clients_that_say_nothing_keep_nobody_from_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    longest_s(monkeypatch, 60)
    with served() as address, ExitStack() as stack:
        for _ in range(3 * MOST):
            stack.enter_context(socket.create_connection(address))
        began = time.monotonic()
        assert ask(address, "/healthz")[0] == 200
        assert time.monotonic() - began < 30
        assert sum(thread.name == "health answer" for thread in threading.enumerate()) <= MOST


def test_a_client_that_goes_on_and_on_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    longest_s(monkeypatch, 1)
    with served() as address, socket.create_connection(address, timeout=0.2) as slow:
        began = time.monotonic()
        slow.sendall(b"GET /healthz HTTP/1.1\r\n")
        while goes_on(slow):
            assert time.monotonic() - began < 30


def longest_s(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """How long the server listens to a client."""
    monkeypatch.setattr(server, "LONGEST_S", seconds)
    monkeypatch.setattr(server._Handler, "timeout", seconds)


def goes_on(slow: socket.socket) -> bool:
    """Send one more line of a request that never ends; False once the server has hung up."""
    try:
        slow.sendall(b"X-More: 1\r\n")
        return bool(slow.recv(1))
    except TimeoutError:
        return True
    except ConnectionError:
        return False


@pytest.mark.parametrize(
    "junk", [b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"x" * 70_000]
)
def test_junk_harms_nothing(junk: bytes) -> None:
    with served() as address:
        with socket.create_connection(address, timeout=10) as client:
            client.sendall(junk)
            client.shutdown(socket.SHUT_WR)
            try:
                while client.recv(65_536):
                    pass
            except ConnectionResetError:  # it was not read to its end
                assert len(junk) > 65_536
        assert ask(address, "/healthz")[0] == 200


def test_a_taken_port_is_told_apart() -> None:
    with served() as address:
        with pytest.raises(ListenError) as error:
            Server(address, HttpPages(well()))
        assert error.value.taken
    with pytest.raises(ListenError) as error:
        Server(Address("host.invalid", 1), HttpPages(well()))
    assert not error.value.taken


@pytest.mark.parametrize(
    ("listen", "process", "address"),
    [
        (None, "collect", Address("127.0.0.1", 19470)),
        (None, "stream", Address("127.0.0.1", 19471)),
        (None, "sink", Address("127.0.0.1", 19472)),
        ("off", "sink", None),
        ("10.0.0.1:9000", "sink", Address("10.0.0.1", 9000)),
        ("[::1]:0", "sink", Address("::1", 0)),
    ],
)
def test_where(listen: str | None, process: str, address: Address | None) -> None:
    assert address_of(listen, process) == address


@pytest.mark.parametrize("text", ["127.0.0.1:19471", "[::1]:0", "host:80"])
def test_an_address_is_written_as_it_is_read(text: str) -> None:
    assert str(parse(text)) == text
    assert parse("0.0.0.0:1").near == Address("127.0.0.1", 1)
    assert parse("[::]:1").near == Address("::1", 1)
