"""The process refuses at its start what it cannot do, and follows certificates that are renewed."""

import asyncio
import ssl
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.load import load
from dutycycle.kube.objects import ApiServer
from dutycycle.telemetry.events import ADAPTER, Telemetry
from sinks.adapter.figures import Figures
from sinks.adapter.front_proxy import FrontProxy
from sinks.adapter.server import MetricsApi
from sinks.adapter.service import run, serve
from tests.support.servers.kafka.certificates import make_certificate
from tests.support.servers.ports import free_port


async def test_a_certificate_is_needed() -> None:
    settings = load({"DUTYCYCLE_BROKER": "127.0.0.1:1", "DUTYCYCLE_NODE": "n"})
    with pytest.raises(SettingError, match="DUTYCYCLE_ADAPTER_CERT and DUTYCYCLE_ADAPTER_KEY"):
        await run(settings, Telemetry(ADAPTER), asyncio.Event())


async def test_an_api_server_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    make_certificate(tmp_path, "tls", "adapter", "ca")
    files = {
        f"DUTYCYCLE_ADAPTER_{name}": str(tmp_path / f"tls.{end}")
        for name, end in (("CERT", "crt"), ("KEY", "key"))
    }
    settings = load({"DUTYCYCLE_BROKER": "127.0.0.1:1", "DUTYCYCLE_NODE": "n", **files})
    with pytest.raises(
        SettingError, match=r"dutycycle adapter: the API server's configuration cannot be used.*none"
    ):
        await run(settings, Telemetry(ADAPTER), asyncio.Event())


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    for name in ("one", "other"):
        make_certificate(tmp_path, name, name, "ca")
    proxy = FrontProxy((tmp_path / "ca.crt").read_text(), (), (), (), ())
    proxy.tls(str(tmp_path / "one.crt"), str(tmp_path / "one.key"))
    with pytest.raises(OSError, match="KEY_VALUES_MISMATCH"):
        proxy.tls(str(tmp_path / "one.crt"), str(tmp_path / "other.key"))


class Config:
    """Of an API server, the ConfigMap that says how to recognise it."""

    def __init__(self, folder: Path, authority: str) -> None:
        self.folder = folder
        self.authority = authority

    async def read(self, *_: object) -> Mapping[str, Any]:
        return {"data": {"requestheader-client-ca-file": (self.folder / f"{self.authority}.crt").read_text()}}


async def test_renewed_certificates_are_used(tmp_path: Path) -> None:
    for name, authority in (("old", "ours"), ("new", "ours"), ("before", "theirs"), ("after", "theirs-new")):
        make_certificate(tmp_path, name, name, authority)
    for end in ("crt", "key"):
        (tmp_path / f"tls.{end}").write_bytes((tmp_path / f"old.{end}").read_bytes())
    port, config = free_port(), Config(tmp_path, "theirs")
    settings = load(
        {
            "DUTYCYCLE_NODE": "n", "DUTYCYCLE_ADAPTER_LISTEN": f"127.0.0.1:{port}",
            "DUTYCYCLE_ADAPTER_CERT": str(tmp_path / "tls.crt"),
            "DUTYCYCLE_ADAPTER_KEY": str(tmp_path / "tls.key"),
        }
    )  # fmt: skip
    server, telemetry = cast("ApiServer", config), Telemetry(ADAPTER)
    api = MetricsApi(Figures(0), server, telemetry)
    serving = asyncio.create_task(serve(settings, telemetry, server, api, look_s=0.05))

    async def served(client: str) -> str:
        """The name in the adapter's certificate; empty where this client is not let in."""
        context = ssl.create_default_context(cafile=str(tmp_path / "ours.crt"))
        context.check_hostname = False
        context.load_cert_chain(tmp_path / f"{client}.crt", tmp_path / f"{client}.key")
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            try:
                certificate = writer.get_extra_info("peercert")
                writer.write(b"GET / HTTP/1.1\r\nHost: adapter\r\nConnection: close\r\n\r\n")
                answered = await reader.readline()  # TLS 1.3 refuses a client after its handshake
            finally:
                writer.close()
        except OSError:
            return ""
        return str(certificate["subject"][0][0][1]) if answered.startswith(b"HTTP/1.1 401") else ""

    async def until(client: str, name: str) -> None:
        end = time.monotonic() + 240
        while await served(client) != name:
            assert time.monotonic() < end, f"{name} to {client}"
            await asyncio.sleep(0.05)

    await until("before", "old")
    assert await served("after") == ""
    for end in ("crt", "key"):
        (tmp_path / f"tls.{end}").write_bytes((tmp_path / f"new.{end}").read_bytes())
    await until("before", "new")
    config.authority = "theirs-new"
    await until("after", "new")
    assert await served("before") == ""
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
