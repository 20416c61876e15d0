"""Over TLS: a renewed certificate is used, a broken one is not, and only those who may are answered."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from dutycycle.contract.errors import SettingError
from dutycycle.telemetry.events import WEBHOOK, Telemetry
from sinks.events import CERTIFICATE_UNUSABLE, WEBHOOK_SERVES
from sinks.scheduling.listening import Endpoint
from tests.support.servers.kafka.certificates import make_certificate, make_certificates
from tests.support.servers.ports import free_port
from tests.support.waiting import until


async def here(_: web.Request) -> web.Response:
    return web.Response(text="here")


@asynccontextmanager
async def serving(folder: Path, telemetry: Telemetry, client_ca: str | None = None) -> AsyncIterator[str]:
    """The address of an endpoint with the certificate ``server`` of the folder."""
    listen = f"127.0.0.1:{free_port()}"
    endpoint = Endpoint("webhook", listen, str(folder / "server.crt"), str(folder / "server.key"), client_ca)
    app = web.Application()
    app.router.add_get("/", here)
    task = asyncio.create_task(endpoint.serve(app, endpoint.tls(), telemetry, WEBHOOK_SERVES, look_s=0.05))
    await until(lambda: telemetry.count(WEBHOOK_SERVES) > 0)
    yield f"https://{listen}/"
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def answer(url: str, authority: Path, client: Path | None = None) -> str:
    """Over a connection of its own."""
    context = ssl.create_default_context(cafile=str(authority))
    if client is not None:
        context.load_cert_chain(client.with_suffix(".crt"), client.with_suffix(".key"))
    async with aiohttp.ClientSession() as session, session.get(url, ssl=context) as found:
        return await found.text()


async def test_a_renewed_certificate_is_used_and_a_broken_one_is_not(tmp_path: Path) -> None:
    telemetry = Telemetry(WEBHOOK)
    before = make_certificates(tmp_path).authority
    (tmp_path / "new").mkdir()
    after = make_certificates(tmp_path / "new").authority
    async with serving(tmp_path, telemetry) as url:
        assert await answer(url, before) == "here"
        (tmp_path / "server.crt").write_text("broken")
        await until(lambda: telemetry.conditions)
        assert (CERTIFICATE_UNUSABLE.name, "webhook") in telemetry.conditions
        assert await answer(url, before) == "here"
        for name in ("server.crt", "server.key"):
            (tmp_path / name).write_bytes((tmp_path / "new" / name).read_bytes())
        await until(lambda: not telemetry.conditions)
        assert await answer(url, after) == "here"
        with pytest.raises(aiohttp.ClientSSLError):
            await answer(url, before)


async def test_a_pair_of_which_one_file_is_renewed_first_is_used_when_both_are(tmp_path: Path) -> None:
    telemetry = Telemetry(WEBHOOK)
    before = make_certificates(tmp_path).authority
    (tmp_path / "new").mkdir()
    after = make_certificates(tmp_path / "new").authority
    async with serving(tmp_path, telemetry) as url:
        (tmp_path / "server.crt").write_bytes((tmp_path / "new" / "server.crt").read_bytes())
        await until(lambda: telemetry.conditions)
        assert await answer(url, before) == "here"
        (tmp_path / "server.key").write_bytes((tmp_path / "new" / "server.key").read_bytes())
        await until(lambda: not telemetry.conditions)
        assert await answer(url, after) == "here"


async def test_only_who_has_a_certificate_of_the_authority_is_answered(tmp_path: Path) -> None:
    authority = make_certificates(tmp_path).authority
    make_certificate(tmp_path, "scheduler", "kube-scheduler", "askers")
    async with serving(tmp_path, Telemetry(WEBHOOK), str(tmp_path / "askers.crt")) as url:
        assert await answer(url, authority, tmp_path / "scheduler") == "here"
        with pytest.raises(aiohttp.ClientError):
            await answer(url, authority)


def test_without_a_certificate_it_listens_on_this_machine_alone(tmp_path: Path) -> None:
    assert Endpoint("webhook", "127.0.0.1:0", None, None, None).tls() is None
    with pytest.raises(SettingError, match=r"DUTYCYCLE_WEBHOOK_LISTEN=0\.0\.0\.0:1: others can ask there"):
        Endpoint("webhook", "0.0.0.0:1", None, None, None).tls()


@pytest.mark.parametrize("given", ["cert", "key", "client_ca"])
def test_a_part_of_what_tls_needs_is_not_taken_for_plain_http(given: str) -> None:
    files = dict.fromkeys(("cert", "key", "client_ca")) | {given: "a.pem"}
    with pytest.raises(SettingError, match=f"DUTYCYCLE_WEBHOOK_{given.upper()}=a.pem: needs DUTYCYCLE_"):
        Endpoint("webhook", "127.0.0.1:0", **files).tls()


def test_files_that_are_no_pem_are_named(tmp_path: Path) -> None:
    broken = tmp_path / "a"
    broken.write_text("no PEM")
    with pytest.raises(SettingError, match=r"DUTYCYCLE_WEBHOOK_CLIENT_CA=.*: no certificate in PEM"):
        Endpoint("webhook", "0.0.0.0:1", str(broken), str(broken), str(broken)).tls()
    with pytest.raises(SettingError, match=r"DUTYCYCLE_WEBHOOK_CERT=.*: no certificate with its key in PEM"):
        Endpoint("webhook", "0.0.0.0:1", str(broken), str(broken), None).tls()
