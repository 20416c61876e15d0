"""The role refuses at its start what it cannot do, and follows how the API server is recognised."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.load import load
from dutycycle.kube.objects import ApiServer
from dutycycle.telemetry.events import ADAPTER, Telemetry
from sinks.adapter.role import AutoscalerRole
from sinks.events import FRONT_PROXY_UNKNOWN
from sinks.serve.base import Role
from sinks.serve.service import run
from tests.support.servers.kafka.certificates import make_certificate
from tests.support.waiting import until


async def test_a_certificate_is_needed() -> None:
    settings = load({"DUTYCYCLE_BROKER": "127.0.0.1:1", "DUTYCYCLE_NODE": "n"})
    with pytest.raises(SettingError, match="DUTYCYCLE_SERVE_CERT and DUTYCYCLE_SERVE_KEY"):
        await run(["autoscaler"], settings, Telemetry(ADAPTER), asyncio.Event())


async def test_an_api_server_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    make_certificate(tmp_path, "tls", "adapter", "ca")
    files = {
        f"DUTYCYCLE_SERVE_{name}": str(tmp_path / f"tls.{end}")
        for name, end in (("CERT", "crt"), ("KEY", "key"))
    }
    settings = load({"DUTYCYCLE_BROKER": "127.0.0.1:1", "DUTYCYCLE_NODE": "n", **files})
    with pytest.raises(
        SettingError, match=r"dutycycle adapter: the API server's configuration cannot be used.*none"
    ):
        await run(["autoscaler"], settings, Telemetry(ADAPTER), asyncio.Event())


class Config:
    """Of an API server, the ConfigMap that says how to recognise it."""

    def __init__(self, authority: str) -> None:
        self.authority, self.names = authority, "[]"

    async def read(self, *_: object) -> Mapping[str, Any]:
        return {
            "data": {
                "requestheader-client-ca-file": self.authority, "requestheader-allowed-names": self.names,
            }
        }  # fmt: skip

    async def close(self) -> None:
        """There is no connection."""


class Trusts:
    """A listener that notes whom it is told to trust, and refuses what is no PEM."""

    def __init__(self) -> None:
        self.authorities: list[str] = []

    def trust(self, role: Role, authority: str) -> None:
        if authority == "no PEM":
            raise OSError("no certificate")
        self.authorities.append(f"{role.name}: {authority}")


async def test_a_renewed_authority_is_trusted_and_what_cannot_be_used_is_waited_for() -> None:
    telemetry, config, listener = Telemetry(ADAPTER), Config(""), Trusts()
    role = AutoscalerRole(load({"DUTYCYCLE_NODE": "n"}), telemetry, {})
    role.use(cast("ApiServer", config))
    working = asyncio.create_task(role.work(listener, look_s=0.01))
    await until(lambda: telemetry.conditions)
    for unusable in ("", "no PEM"):
        config.authority = unusable
        await until(lambda: telemetry.count(FRONT_PROXY_UNKNOWN) == 1)
        assert role.readiness_error() == "waiting for the API server's certificate authority"
    config.authority = "theirs"
    await until(lambda: listener.authorities[-1:] == ["autoscaler: theirs"])
    await until(lambda: not telemetry.conditions and role.readiness_error() is None)
    config.authority = "theirs, renewed"
    await until(lambda: listener.authorities[-1:] == ["autoscaler: theirs, renewed"])
    config.names = '["front-proxy-cl'
    await until(lambda: telemetry.conditions)
    assert (role.readiness_error(), working.done()) == (None, False), "it goes on with what it had"
    config.names = '["front-proxy-client"]'
    await until(lambda: not telemetry.conditions)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
