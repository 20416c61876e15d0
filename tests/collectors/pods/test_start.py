"""Goal: where there is no API server that is said once; a configuration that is no use is refused."""

import logging
from pathlib import Path

import pytest

from collectors.pods.collector import pods_collector
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.kube.objects import connect
from dutycycle.telemetry.events import Telemetry

NODE = "gpu-a"


@pytest.mark.parametrize(("mode", "reason"), [("auto", "no_api_server"), ("off", "off")])
async def test_without_an_api_server_there_is_no_collector(
    mode: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="dutycycle")
    telemetry = Telemetry("test")
    assert await pods_collector(Settings(node=NODE, kubernetes=mode), telemetry) is None
    assert telemetry.counts == {("not_measured", ("pods", reason)): 1}
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("content", [None, "", "[1]", "{}", "no: [yaml", '{"clusters": 5}', "\x00"])
async def test_a_configuration_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None
) -> None:
    file = tmp_path / "kubeconfig"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(SettingError, match=r"DUTYCYCLE_KUBERNETES=on: .*KUBECONFIG"):
        await connect("on")
