"""Over TLS: a renewed certificate is used, a broken one is not; each role answers those who may ask it."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.load import load
from dutycycle.telemetry.events import WEBHOOK, Telemetry
from sinks.events import CERTIFICATE_UNUSABLE, EXTENDER_SERVES, WEBHOOK_SERVES
from sinks.serve.base import Role
from sinks.serve.listener import Listener
from tests.support.servers.kafka.certificates import make_certificate, make_certificates
from tests.support.servers.ports import free_port
from tests.support.waiting import until

SETTINGS = load({"DUTYCYCLE_NODE": "n"})


class Answering(Role):
    """Answers its name at a path of its name. ``error``: what it waits for."""

    def __init__(self, name: str, client_ca: Path | None = None) -> None:
        super().__init__(SETTINGS, Telemetry(WEBHOOK), {}, None if client_ca is None else str(client_ca))
        self.name = name  # type: ignore[misc]
        self.serves = {"webhook": WEBHOOK_SERVES}.get(name, EXTENDER_SERVES)  # type: ignore[misc]
        self.subscriptions = ()
        self.routes = [web.get(f"/{name}", self._answer)]
        self.error: str | None = None

    async def _answer(self, _: web.Request) -> web.Response:
        return web.Response(text=self.name)


def listener_of(
    roles: Sequence[Answering], telemetry: Telemetry | None = None, **files: Path | str
) -> Listener:
    given = {f"DUTYCYCLE_SERVE_{name.upper()}": str(value) for name, value in files.items()}
    settings = load({"DUTYCYCLE_NODE": "n", **given})
    errors = {role.name: lambda role=role: role.error for role in roles}
    return Listener(settings, telemetry or Telemetry(WEBHOOK), roles, errors, look_s=0.05)


@asynccontextmanager
async def serving(
    folder: Path, *roles: Answering, telemetry: Telemetry | None = None
) -> AsyncIterator[tuple[str, Listener]]:
    """The address of a listener with the certificate ``server`` of the folder."""
    listen = f"127.0.0.1:{free_port()}"
    listener = listener_of(
        roles, telemetry, listen=listen, cert=folder / "server.crt", key=folder / "server.key"
    )
    task = asyncio.create_task(listener.serve())
    host, _, port = listen.rpartition(":")

    async def listens() -> bool:
        try:
            _, writer = await asyncio.open_connection(host, int(port))
        except OSError:
            return False
        writer.close()
        return True

    await until(listens)
    yield f"https://{listen}", listener
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def answer(url: str, authority: Path, client: Path | None = None) -> tuple[int, str]:
    """Over a connection of its own."""
    context = ssl.create_default_context(cafile=str(authority))
    if client is not None:
        context.load_cert_chain(client.with_suffix(".crt"), client.with_suffix(".key"))
    async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as response:
        return response.status, await response.text()


HERE = (200, "webhook")


async def test_a_renewed_certificate_is_used_and_a_broken_one_is_not(tmp_path: Path) -> None:
    telemetry = Telemetry(WEBHOOK)
    before = make_certificates(tmp_path).authority
    (tmp_path / "new").mkdir()
    after = make_certificates(tmp_path / "new").authority
    async with serving(tmp_path, Answering("webhook"), telemetry=telemetry) as (url, _):
        await until(lambda: telemetry.count(WEBHOOK_SERVES) > 0)
        assert await answer(f"{url}/webhook", before) == HERE
        (tmp_path / "server.crt").write_text("broken")
        await until(lambda: telemetry.conditions)
        assert (CERTIFICATE_UNUSABLE.name, "serve") in telemetry.conditions
        assert await answer(f"{url}/webhook", before) == HERE
        (tmp_path / "server.crt").write_bytes((tmp_path / "new" / "server.crt").read_bytes())
        await asyncio.sleep(0.2)
        assert telemetry.conditions, "the key is not that of the certificate yet"
        assert await answer(f"{url}/webhook", before) == HERE
        (tmp_path / "server.key").write_bytes((tmp_path / "new" / "server.key").read_bytes())
        await until(lambda: not telemetry.conditions)
        assert await answer(f"{url}/webhook", after) == HERE
        with pytest.raises(aiohttp.ClientSSLError):
            await answer(f"{url}/webhook", before)


async def test_only_who_has_a_certificate_of_the_authority_is_answered(tmp_path: Path) -> None:
    authority = make_certificates(tmp_path).authority
    make_certificate(tmp_path, "scheduler", "kube-scheduler", "askers")
    async with serving(tmp_path, Answering("webhook", tmp_path / "askers.crt")) as (url, _):
        assert await answer(f"{url}/webhook", authority, tmp_path / "scheduler") == HERE
        with pytest.raises(aiohttp.ClientError):
            await answer(f"{url}/webhook", authority)


async def test_each_role_answers_those_whom_its_own_authority_vouches_for(tmp_path: Path) -> None:
    authority = make_certificates(tmp_path).authority
    for name in ("scheduler", "apiserver", "next"):
        make_certificate(tmp_path, name, "the same name", f"ca-of-{name}")
    extender = Answering("extender", tmp_path / "ca-of-scheduler.crt")
    autoscaler = Answering("autoscaler", tmp_path / "ca-of-apiserver.crt")
    autoscaler.client_ca = None  # it learns of it later
    roles = (extender, autoscaler, Answering("webhook"))
    async with serving(tmp_path, *roles) as (url, listener):

        async def statuses(client: str | None) -> list[int]:
            file = None if client is None else tmp_path / client
            return [(await answer(f"{url}/{role.name}", authority, file))[0] for role in roles]

        assert await statuses(None) == [401, 401, 200]
        assert await statuses("scheduler") == [200, 401, 200]
        listener.trust(autoscaler, (tmp_path / "ca-of-apiserver.crt").read_text())
        assert await statuses("apiserver") == [401, 200, 200]
        assert await statuses("scheduler") == [200, 401, 200]
        listener.trust(autoscaler, (tmp_path / "ca-of-next.crt").read_text())
        assert await statuses("next") == [401, 200, 200]
        assert await statuses("apiserver") == [401, 401, 200], "it was trusted before"


async def test_a_role_that_waits_delays_no_other(tmp_path: Path) -> None:
    authority, telemetry = make_certificates(tmp_path).authority, Telemetry(WEBHOOK)
    extender, webhook = Answering("extender"), Answering("webhook")
    webhook.error = "making PriorityClasses"
    async with serving(tmp_path, extender, webhook, telemetry=telemetry) as (url, _):
        await until(lambda: telemetry.count(EXTENDER_SERVES) == 1)
        assert await answer(f"{url}/extender", authority) == (200, "extender")
        waits = (503, "webhook: making PriorityClasses\n")
        assert await answer(f"{url}/webhook", authority) == waits
        assert telemetry.count(WEBHOOK_SERVES) == 0
        webhook.error = None
        await until(lambda: telemetry.count(WEBHOOK_SERVES) == 1)
        webhook.error = "it has served before: what it knows is old, and better than nothing"
        assert await answer(f"{url}/webhook", authority) == HERE


async def test_an_address_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(SettingError, match=f"DUTYCYCLE_SERVE_LISTEN={address}: .*: give another"):
            await listener_of([Answering("webhook")], listen=address).serve()


def test_without_a_certificate_it_listens_on_this_machine_alone() -> None:
    listener_of([Answering("webhook")], listen="127.0.0.1:0")
    with pytest.raises(SettingError, match=r"DUTYCYCLE_SERVE_LISTEN=0\.0\.0\.0:1: others can ask there"):
        listener_of([Answering("webhook")], listen="0.0.0.0:1")


def test_a_part_of_what_tls_needs_is_not_taken_for_plain_http(tmp_path: Path) -> None:
    file = tmp_path / "a.pem"
    file.write_text("any")
    for given in ("cert", "key"):
        with pytest.raises(SettingError, match=f"DUTYCYCLE_SERVE_{given.upper()}=.*a.pem: needs DUTYCYCLE_"):
            listener_of([Answering("webhook")], None, **{given: file})
    with pytest.raises(SettingError, match=r"DUTYCYCLE_WEBHOOK_CLIENT_CA=.*a.pem: needs DUTYCYCLE_"):
        listener_of([Answering("webhook", file)])
    asking = Answering("autoscaler", file)
    asking.client_ca = None
    with pytest.raises(
        SettingError, match=r"SERVE_CERT and DUTYCYCLE_SERVE_KEY: give the files .*autoscaler"
    ):
        listener_of([asking])


def test_files_that_are_no_pem_are_named(tmp_path: Path) -> None:
    broken = tmp_path / "a"
    broken.write_text("no PEM")
    with pytest.raises(SettingError, match=r"DUTYCYCLE_SERVE_CERT=.*: no certificate with its key in PEM"):
        listener_of([Answering("webhook")], cert=broken, key=broken)
    make_certificates(tmp_path)
    cert, key = tmp_path / "server.crt", tmp_path / "server.key"
    for text in ("no PEM", "", "-----BEGIN CERTIFICATE-----\nÄ\n-----END CERTIFICATE-----\n"):
        broken.write_text(text, encoding="utf-8")
        with pytest.raises(SettingError, match=r"DUTYCYCLE_WEBHOOK_CLIENT_CA=.*: no certificate in PEM"):
            listener_of([Answering("webhook", broken)], cert=cert, key=key)


async def test_a_connection_that_breaks_behind_the_answer_is_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Asking(Answering):
        async def _answer(self, request: web.Request) -> web.Response:
            raise ConnectionRefusedError("the database")

    role, listen = Asking("webhook"), f"127.0.0.1:{free_port()}"
    role.routes = [web.post("/webhook", role._answer)]
    listener = listener_of([role], listen=listen)
    task = asyncio.create_task(listener.serve())
    statuses: list[int] = []
    async with aiohttp.ClientSession() as session:

        async def is_served() -> bool:
            try:
                async with session.post(f"http://{listen}/webhook", data=b"x") as response:
                    statuses.append(response.status)
            except aiohttp.ClientError:
                return False
            return response.status != 503

        await until(is_served)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert statuses[-1] == 500
    assert "the database" in caplog.text


async def test_who_ends_its_question_half_way_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """As a scheduler does whose time is up: it closes the connection, and resets nothing."""
    readings: list[str] = []

    class Reading(Answering):
        async def _answer(self, request: web.Request) -> web.Response:
            readings.append("begun")
            try:
                return web.Response(body=await request.read())
            finally:
                readings.append("ended")

    role, listen = Reading("webhook"), f"127.0.0.1:{free_port()}"
    role.routes = [web.post("/webhook", role._answer)]
    listener = listener_of([role], listen=listen)
    task = asyncio.create_task(listener.serve())
    async with aiohttp.ClientSession() as session:

        async def answers() -> bool:
            try:
                async with session.post(f"http://{listen}/webhook", data=b"whole") as response:
                    return await response.read() == b"whole"
            except aiohttp.ClientError:
                return False

        await until(answers)
        readings.clear()
        _, writer = await asyncio.open_connection(*listen.split(":"))
        writer.write(b"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        await until(lambda: readings == ["begun"])
        writer.close()
        await until(lambda: readings == ["begun", "ended"])
        assert await answers()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not caplog.records
