"""Credentials that cannot be used: one line says what they are needed for, what is wrong and what to do."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dutycycle.contract.errors import SettingError
from dutycycle.kube.config import ConfigSource, Impersonation, UnusableConfigError, of_user
from dutycycle.kube.errors import BusyError
from dutycycle.kube.objects import connect, opened
from tests.dutycycle.kube.test_objects import TARGET
from tests.support.fakes.api_server import POD, FakeApi, Trouble, tls_of
from tests.support.processes.commands import environ, run_to_end
from tests.support.servers.kafka.certificates import Certificates, make_certificates
from tests.support.servers.kube.client import kubeconfig

USELESS = "the API server's configuration cannot be used"
SINK_NEEDS = {"broker": "kafka://127.0.0.1:1", "listen": "off"}


def helper(folder: Path, script: str) -> dict[str, Any]:
    """The user of a credential helper, as a cloud's command line brings one."""
    file = folder / "helper"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(file)}}


def kubeconfig_of(folder: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    """A kubeconfig of one cluster and one user, as they are given."""
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    file = folder / "config"
    file.write_text(
        json.dumps(
            {
                "apiVersion": "v1", "kind": "Config", "current-context": "x", "contexts": [context],
                "clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": user}],
            }
        )
    )  # fmt: skip
    return file


def said(folder: Path, *arguments: str, kubeconfig: str = "", **settings: str) -> str:
    """What the command says when it refuses to begin."""
    env = environ(**settings) | {"HOME": str(folder)}
    if kubeconfig:
        env["KUBECONFIG"] = kubeconfig
    done = run_to_end(*arguments, env=env)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    return done.stderr


def test_the_command_has_no_setting_to_blame(tmp_path: Path) -> None:
    begin, end = f"dutycycle: remove: {USELESS}: KUBECONFIG", "give KUBECONFIG a good file\n"
    assert said(tmp_path, "remove", kubeconfig="/none") == f"{begin}=/none: no such file; {end}"
    assert said(tmp_path, "remove") == (f"{begin} is not set, and ~/.kube/config: no such file; {end}")


def test_credentials_that_a_helper_does_not_give(tmp_path: Path) -> None:
    user = helper(tmp_path, "echo you have to log in >&2; exit 3")
    file = kubeconfig(tmp_path / "config", "http://127.0.0.1:1", user)
    line = said(tmp_path, "remove", kubeconfig=str(file))
    assert f"{USELESS}: KUBECONFIG={file}: credentials cannot be got: exec: process returned 3" in line
    assert "you have to log in" in line
    assert line.count("\n") == 1


@pytest.mark.parametrize("setting", ["annotations", "kubernetes"])
def test_a_sink_names_the_setting_that_asked(tmp_path: Path, setting: str) -> None:
    lines = said(tmp_path, "sink", **SINK_NEEDS, **{setting: "on"})
    name = f"DUTYCYCLE_{setting.upper()}"
    where_records_go, error = lines.splitlines(keepends=True)
    assert where_records_go.startswith("dutycycle: no --records: peak records go to ")
    assert error == (
        f"dutycycle: {name}=on: {USELESS}: KUBECONFIG is not set, and ~/.kube/config: no such file; "
        f"give KUBECONFIG a good file, or set {name}=off\n"
    )


UNUSABLE = {
    "no YAML": "{",
    "no mapping": "[]",
    "no certificate": None,
}


@pytest.mark.parametrize("text", UNUSABLE.values(), ids=UNUSABLE.keys())
async def test_a_file_that_is_none_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None
) -> None:
    file = kubeconfig(tmp_path / "config", "https://127.0.0.1:1", {"client-certificate-data": "?"})
    if text is not None:
        file.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(file))
    with pytest.raises(SettingError, match=f"DUTYCYCLE_KUBERNETES=auto: {USELESS}: ") as caught:
        await connect("auto")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({"server": "host:6443"}, {}, "its server 'host:6443' is no URL such as https://host:6443"),
        ({}, {}, "its server '' is no URL such as https://host:6443"),
        ({"certificate-authority-data": "aGVsbG8="}, {}, "certificate-authority is no certificate in PEM"),
        ({}, {"client-certificate-data": "aGVsbG8=", "client-key-data": "aGVsbG8="},
         "client-certificate is no certificate in PEM"),
        ({"server": "https://h", "certificate-authority-data": "${ca}"}, {}, "ends in -data is no base64"),
        ({"server": "https://h", "certificate-authority-data": "DATA+OMITTED"}, {}, "config view --raw"),
        ({"server": "https://h"}, {"token": "REDACTED"}, "config view --raw"),
        ({"server": "https://h", "proxy-url": "socks5://u:secret@h:1080"}, {},
         "proxy-url is of socks5, and only proxies of HTTP"),
    ],
)  # fmt: skip
def test_a_field_of_a_kubeconfig_is_named(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], message: str
) -> None:
    if "certificate" in message:
        cluster = {"server": "https://127.0.0.1:1"} | cluster
    file = kubeconfig_of(tmp_path, cluster, user)
    with pytest.raises(UnusableConfigError, match=message):
        of_user(str(file), None).read()


def test_a_context_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    file = kubeconfig_of(tmp_path, {"server": "https://h"}, {"token": "t"})
    with pytest.raises(UnusableConfigError, match="there is no context y in it: it has x"):
        of_user(str(file), "y").read()
    file.write_text(file.read_text().replace('"current-context": "x"', '"current-context": ""'))
    with pytest.raises(UnusableConfigError, match=r"no current-context is set in it: .*; it has x"):
        of_user(str(file), None).read()
    assert of_user(str(file), "x").read().address == "https://h"


def test_a_user_of_a_kubeconfig_may_act_as_another(tmp_path: Path) -> None:
    user = {"token": "t\n", "as": "bob", "as-groups": ["dev"]}
    file = kubeconfig_of(tmp_path, {"server": "https://127.0.0.1:1"}, user)
    access = of_user(str(file), None).read()
    assert (access.authorization(), access.act_as) == ("Bearer t", Impersonation("bob", ("dev",)))
    eve = Impersonation("eve")
    assert of_user(str(file), None, eve).read().act_as == eve


async def test_a_helper_that_fails_later_is_asked_again(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.add(POD, "uid-1")
    good = (
        'echo \'{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        '"status":{"token":"t"}}\''
    )
    file = kubeconfig(tmp_path / "config", api.url, helper(tmp_path, good))
    monkeypatch.setenv("KUBECONFIG", str(file))
    server = await connect("auto")
    assert server is not None
    helper(tmp_path, "exit 1")
    api.trouble.append(Trouble(401, method="GET"))
    with pytest.raises(BusyError, match="credentials cannot be got: exec: process returned 1"):
        await server.annotations(TARGET)
    assert await server.annotations(TARGET) == {}
    await server.close()


def made(folder: Path) -> Certificates:
    folder.mkdir()
    return make_certificates(folder)


async def test_a_pod_uses_its_service_account_and_what_the_kubelet_replaces_in_it(
    api: FakeApi, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (made(tmp_path / name) for name in ("old", "new"))
    for name, text in (("token", "first\n"), ("namespace", "team"), ("ca.crt", old.authority.read_text())):
        (tmp_path / name).write_text(text)
    await api.stop()
    await api.start(tls_of(old))
    api.add(POD, "uid-1")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(api.port))
    server = await opened(ConfigSource("the pod's service account", service_account=tmp_path))
    assert (server.address, server.namespace) == (api.url, "team")
    for token, files in (("first", old), ("second", old), ("third", new)):
        (tmp_path / "token").write_text(token)
        api.tokens = {token}
        if files is new:
            await api.stop()
            await api.start(tls_of(new))
            (tmp_path / "ca.crt").write_text(new.authority.read_text())
        assert await server.annotations(TARGET) == {}
    (tmp_path / "token").unlink()
    assert await server.annotations(TARGET) == {}
    await server.close()


def test_a_service_account_without_a_server_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnusableConfigError, match="the pod's: KUBERNETES_SERVICE_HOST or "):
        ConfigSource("the pod's", service_account=tmp_path).read()


async def test_where_the_api_server_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await connect("auto") is None
    assert await connect("off") is None
    file = kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    monkeypatch.setenv("KUBECONFIG", str(file))
    assert await connect("off") is None
    for mode in ("auto", "on"):
        server = await connect(mode)
        assert server is not None
        assert server.address == "http://127.0.0.1:1"
        await server.close()
    file.write_text("no: config")
    with pytest.raises(SettingError, match="DUTYCYCLE_KUBERNETES=auto"):
        await connect("auto")


def test_a_kubeconfig_without_the_package_that_reads_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    monkeypatch.setitem(sys.modules, "kubernetes.client", None)
    source = ConfigSource("KUBECONFIG=config", str(tmp_path / "config"))
    with pytest.raises(
        UnusableConfigError, match=r"the package kubernetes is not installed: pip install 'dutycycle'"
    ):
        source.read()
