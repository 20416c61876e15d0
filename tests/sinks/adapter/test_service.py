"""The process refuses at its start what it cannot do."""

import asyncio
from pathlib import Path

import pytest

from contract.errors import SettingError
from contract.settings.load import load
from sinks.adapter.front_proxy import FrontProxy
from sinks.adapter.service import run
from telemetry.events import ADAPTER, Telemetry
from tests.support.servers.kafka.certificates import make_certificate


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
