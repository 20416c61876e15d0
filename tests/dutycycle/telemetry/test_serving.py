"""Goal: a process says where it answers; a port that is taken is one clear error, or another port."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from dutycycle.telemetry import endpoint
from dutycycle.telemetry.endpoint import Address, AskError, ask, where
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.serving import serving
from tests.support.servers.kafka.certificates import make_certificate
from tests.support.waiting import until


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def settings(listen: str) -> Settings:
    return load({}, {"listen": listen})


async def get(where_to: Address, path: str) -> tuple[int, str]:
    return await asyncio.to_thread(ask, where_to, path)


async def test_it_says_where_and_answers_until_the_end(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry("stream")
    with caplog.at_level(logging.INFO, logger="dutycycle"):
        async with serving(settings(":0"), "stream", telemetry) as found:
            assert found is not None
            assert caplog.messages == [f"stream serves http://{found} (/healthz, /readyz, /metrics)"]
            assert await get(found, "/healthz") == (200, "healthy\n")
            assert await get(found, "/readyz") == (503, "starting\n")
            telemetry.status.waiting = None
            telemetry.status.remark = lambda: "records go to the broker"
            assert await get(found, "/readyz") == (200, "ready: records go to the broker\n")
            status, page = await get(found, "/metrics")
            assert status == 200
            assert "dutycycle_ready 1.0" in page
            assert "dutycycle_build_info{version=" in page
    with pytest.raises(AskError, match="does not answer: Connection refused"):
        await get(found, "/healthz")


async def test_a_certificate_and_a_token_keep_others_out_and_the_certificate_is_renewed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("old", "new"):
        make_certificate(tmp_path, name, name, f"{name}-ca")

    def install(name: str) -> None:
        for end in ("crt", "key"):
            (tmp_path / f"tls.{end}").write_bytes((tmp_path / f"{name}.{end}").read_bytes())

    install("old")
    (tmp_path / "token").write_text("s3cret\n")
    given = load({"DUTYCYCLE_LISTEN_TOKEN_FILE": str(tmp_path / "token")}, {
        "listen": ":0", "listen_cert": str(tmp_path / "tls.crt"), "listen_key": str(tmp_path / "tls.key"),
    })  # fmt: skip
    telemetry = Telemetry("stream")
    telemetry.status.waiting = None
    async with serving(given, "stream", telemetry) as found:
        assert found is not None

        async def get_page(path: str, token: str | None = None) -> int:
            return (await asyncio.to_thread(lambda: ask(found, path, tls=True, token=token)))[0]

        def is_trusted(authority: str) -> bool:
            context = ssl.create_default_context(cafile=str(tmp_path / f"{authority}.crt"))
            context.check_hostname = False
            try:
                with socket.create_connection(found) as raw, context.wrap_socket(raw):
                    return True
            except ssl.SSLCertVerificationError:
                return False

        # The kubelet has no token; whoever asks for the figures needs it.
        assert [await get_page("/healthz"), await get_page("/readyz")] == [200, 200]
        assert [await get_page("/metrics", one) for one in (None, "guess", "s3cret")] == [401, 401, 200]
        with pytest.raises(AskError):
            await get(found, "/healthz")  # without TLS
        assert (
            await asyncio.to_thread(is_trusted, "old-ca"),
            await asyncio.to_thread(is_trusted, "new-ca"),
        ) == (True, False)
        install("new")
        (tmp_path / "token").write_text("an0ther")
        await until(lambda: is_trusted("new-ca"))
        assert [await get_page("/metrics", one) for one in ("s3cret", "an0ther")] == [401, 200]
        (tmp_path / "tls.crt").write_text("broken")
        await until(lambda: "a renewed certificate cannot be used, the one before is kept" in caplog.text)
        assert await asyncio.to_thread(is_trusted, "new-ca")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"listen_cert": "cert"}, "DUTYCYCLE_LISTEN_CERT and DUTYCYCLE_LISTEN_KEY: give both"),
        ({"listen_cert": "cert", "listen_key": "cert"}, "no certificate with its key in PEM"),
    ],
)
async def test_a_certificate_that_is_none_is_an_error(
    given: dict[str, str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "cert").write_text("no certificate")
    files = {name: str(tmp_path / file) for name, file in given.items()}
    with pytest.raises(SettingError, match=said):
        async with serving(load({}, {"listen": ":0", **files}), "stream", Telemetry("stream")):
            pass


async def test_off_is_off(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="dutycycle"):
        async with serving(settings("off"), "stream", Telemetry("stream")) as found:
            assert found is None
    assert caplog.messages == []


async def test_a_port_that_was_asked_for_and_is_taken_is_an_error(taken: int) -> None:
    with pytest.raises(SettingError) as error:
        async with serving(settings(f"127.0.0.1:{taken}"), "stream", Telemetry("stream")):
            pass
    assert str(error.value) == (
        f"DUTYCYCLE_LISTEN=127.0.0.1:{taken}: port {taken} is taken by another process: give another "
        "host:port, 127.0.0.1:0 for any free port, or off"
    )


async def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(SettingError, match=r"DUTYCYCLE_LISTEN=192\.0\.2\.1:1234: .*assign"):
        async with serving(settings("192.0.2.1:1234"), "stream", Telemetry("stream")):
            pass


@pytest.mark.parametrize("asked", [True, False], ids=["a child of up", "the default port"])
async def test_another_port_will_do(
    asked: bool, taken: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(endpoint.PORTS, "stream", taken)
    chosen = settings(f"127.0.0.1:{taken}") if asked else load({})
    with caplog.at_level(logging.INFO, logger="dutycycle"):
        async with serving(chosen, "stream", Telemetry("stream"), elsewhere=asked) as found:
            assert found is not None
            assert found.port != taken
            assert (await get(found, "/healthz"))[0] == 200
    (said,) = [one for one in caplog.records if f"port {taken} is taken" in one.message]
    assert said.levelno == (logging.INFO if asked else logging.WARNING), "the screen of up is kept tidy"
    assert "DUTYCYCLE_LISTEN" in said.message


@pytest.mark.parametrize(
    ("whom", "listen", "found"),
    [
        ("stream", None, Address("127.0.0.1", 19471)),
        ("stream", "10.0.0.1:7", Address("10.0.0.1", 7)),
        ("stream", "0.0.0.0:7", Address("127.0.0.1", 7)),
        ("[::1]:9", None, Address("::1", 9)),
        (":9", None, Address("127.0.0.1", 9)),
    ],
)
def test_whom_to_ask(whom: str, listen: str | None, found: Address) -> None:
    assert where(whom, listen) == found


@pytest.mark.parametrize(("whom", "listen"), [("x", None), ("h:0", None), ("off", None), ("sink", "off")])
def test_nobody_to_ask(whom: str, listen: str | None) -> None:
    with pytest.raises(SettingError, match="host:port"):
        where(whom, listen)


def test_who_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    monkeypatch.setattr("dutycycle.telemetry.endpoint.ANSWER_S", 0.3)
    with pytest.raises(AskError, match=f"127.0.0.1:{taken} does not answer within 0.3 s"):
        ask(Address("127.0.0.1", taken), "/healthz")
