"""From settings to what a client connects with."""

import asyncio
import shutil
import ssl
from pathlib import Path

import pytest

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load as load_settings
from dutycycle.kafka.security import bootstrap_servers, security_kwargs
from tests.support.servers.kafka.certificates import make_certificate

SASL = {
    "DUTYCYCLE_SASL_MECHANISM": "SCRAM-SHA-512",
    "DUTYCYCLE_SASL_USERNAME": "u",
    "DUTYCYCLE_SASL_PASSWORD": "p",
}


def load(**values: str) -> Settings:
    return load_settings({f"DUTYCYCLE_{name.upper()}": value for name, value in values.items()})


@pytest.mark.parametrize(
    ("broker", "servers"),
    [
        ("kafka://a:9092", ["a:9092"]),
        ("kafka+ssl://a:9092,b:9093", ["a:9092", "b:9093"]),
        ("a:9092", ["a:9092"]),
        ("kafka://[::1]:9092", ["[::1]:9092"]),
    ],
)
def test_addresses(broker: str, servers: list[str]) -> None:
    assert bootstrap_servers(load(broker=broker)) == servers


@pytest.mark.parametrize(
    ("broker", "extra", "protocol"),
    [
        ("kafka://a:1", {}, "PLAINTEXT"),
        ("kafka+ssl://a:1", {}, "SSL"),
        ("kafka://a:1", SASL, "SASL_PLAINTEXT"),
        ("kafka+ssl://a:1", SASL, "SASL_SSL"),
    ],
)
def test_protocol(broker: str, extra: dict[str, str], protocol: str) -> None:
    kwargs = security_kwargs(load_settings({"DUTYCYCLE_BROKER": broker, **extra}))
    assert kwargs["security_protocol"] == protocol
    assert (kwargs["ssl_context"] is not None) == ("SSL" in protocol.split("_")[-1])
    assert kwargs.get("sasl_mechanism") == extra.get("DUTYCYCLE_SASL_MECHANISM")
    assert kwargs.get("sasl_plain_password") == extra.get("DUTYCYCLE_SASL_PASSWORD")


def test_no_broker_is_refused() -> None:
    with pytest.raises(SettingError, match="DUTYCYCLE_BROKER is not set"):
        bootstrap_servers(load())


def test_a_ca_without_tls_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    with pytest.raises(SettingError, match=r"DUTYCYCLE_TLS_CA .*kafka\+ssl://a:1"):
        security_kwargs(load(broker="kafka://a:1", tls_ca=str(tmp_path / "ca.pem")))


@pytest.mark.parametrize(("names", "said"), [(["tls_ca"], "TLS_CA"), (["tls_cert", "tls_key"], "TLS_CERT")])
def test_a_file_that_is_no_certificate_is_named(tmp_path: Path, names: list[str], said: str) -> None:
    (tmp_path / "x.pem").write_text("no certificate")
    files = dict.fromkeys(names, str(tmp_path / "x.pem"))
    with pytest.raises(SettingError, match=f"DUTYCYCLE_{said}=.*x.pem"):
        security_kwargs(load(broker="kafka+ssl://a:1", **files))


async def test_certificates_that_are_renewed_in_their_files_are_those_of_the_next_connection(
    tmp_path: Path,
) -> None:
    """A client lives for months: what it began with expires, and its authority may be another one by then."""
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        make_certificate(tmp_path / name, "leaf", "localhost", "ca")
    used = {name: str(tmp_path / name) for name in ("ca.crt", "leaf.crt", "leaf.key")}
    names: list[object] = []

    def lay(folder: str, *files: str) -> None:
        for file in files:
            shutil.copyfile(tmp_path / folder / file, used[file])

    async def connect(context: ssl.SSLContext, peer: str) -> None:
        served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / peer / "ca.crt"))
        served.load_cert_chain(tmp_path / peer / "leaf.crt", tmp_path / peer / "leaf.key")
        served.verify_mode = ssl.CERT_REQUIRED

        async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b".")
            writer.close()

        async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=served) as server:
            port = server.sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=context, server_hostname="localhost"
            )
            names.append((peer, await reader.read()))
            writer.close()

    lay("old", *used)
    context = security_kwargs(
        load(
            broker="kafka+ssl://a:1", tls_ca=used["ca.crt"], tls_cert=used["leaf.crt"],
            tls_key=used["leaf.key"],
        )
    )["ssl_context"]  # fmt: skip
    await connect(context, "old")
    with pytest.raises(ssl.SSLError):
        await connect(context, "new")
    lay("new", "leaf.crt")  # not with its key yet
    await connect(context, "old")
    lay("new", *used)
    await connect(context, "new")
    assert names == [("old", b"."), ("old", b"."), ("new", b".")]
