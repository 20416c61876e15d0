"""Goal: a secret is what its file says now, or said last, and is never shown, not even when it is wrong."""

from pathlib import Path

import pytest

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.load import load
from dutycycle.contract.settings.secret import Secret, authorization

PASSWORD = "hunter2"
SASL = {"DUTYCYCLE_SASL_MECHANISM": "PLAIN", "DUTYCYCLE_SASL_USERNAME": "u"}


@pytest.mark.parametrize("content", [f"{PASSWORD}\n", f"{PASSWORD}\r\n", f"\ufeff{PASSWORD}\n"])
def test_a_secret_from_a_file_without_its_line_end(content: str, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(content, encoding="utf-8", newline="")
    settings = load(SASL | {"DUTYCYCLE_SASL_PASSWORD_FILE": str(file)})
    assert settings.sasl_password == PASSWORD


@pytest.mark.parametrize(("what", "read"), [("PASSWORD", " a b "), ("TOKEN", "a b")])
def test_spaces_around_it_belong_to_a_password_alone(what: str, read: str, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("before\n", encoding="utf-8")
    environ = {f"DUTYCYCLE_PROMETHEUS_{what}_FILE": str(file)}
    settings = load(environ | {"DUTYCYCLE_PROMETHEUS_USERNAME": "u"} if what == "PASSWORD" else environ)
    secret = getattr(settings, f"prometheus_{what.lower()}")
    assert secret.now() == "before"
    file.write_text(" a b \r\n", encoding="utf-8", newline="")
    assert secret.now() == read


@pytest.mark.parametrize("content", [None, b"", b"\n", b"\xff\xfe"])
def test_a_secret_file_that_cannot_be_used(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingError, match="DUTYCYCLE_SASL_PASSWORD_FILE="):
        load({"DUTYCYCLE_SASL_PASSWORD_FILE": str(file)})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DUTYCYCLE_SASL_PASSWORD", PASSWORD),
        ("DUTYCYCLE_RECORDS", f"postgresql://u:{PASSWORD}@h/d"),
        ("DUTYCYCLE_PROMETHEUS", f"https://u:{PASSWORD}@h"),
    ],
)
def test_a_good_secret_is_not_in_the_repr(name: str, value: str) -> None:
    settings = load({name: value})
    assert value in vars(settings).values()
    assert PASSWORD not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DUTYCYCLE_RECORDS", f"mysql://u:{PASSWORD}@h/d"),
        ("DUTYCYCLE_RECORDS", PASSWORD),
        ("DUTYCYCLE_PROMETHEUS", f"htp://u:{PASSWORD}@h"),
        ("DUTYCYCLE_PROMETHEUS", f"http://u:{PASSWORD}#1@h"),
        ("DUTYCYCLE_PROMETHEUS", f"http://u:{PASSWORD}/1@h"),
        ("DUTYCYCLE_REMOTE_WRITE", f"http://u:{PASSWORD}\u2100@h/write"),
        ("DUTYCYCLE_BROKER", f"kafka://u:{PASSWORD}@h:9092"),
        ("DUTYCYCLE_BROKER", f"u:{PASSWORD}@h:9092"),
    ],
)
def test_a_wrong_value_does_not_show_its_password(name: str, value: str) -> None:
    for environ, flags in (({name: value}, {}), ({}, {name.removeprefix("DUTYCYCLE_").lower(): value})):
        with pytest.raises(SettingError) as caught:
            load(environ, flags)
        assert PASSWORD not in str(caught.value)


def test_a_file_is_read_at_each_use(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first\n")
    token = load({"DUTYCYCLE_PROMETHEUS_TOKEN_FILE": str(file)}).prometheus_token
    assert token is not None
    for written, is_now in (("second\n", "second"), ("", "second"), ("\n", "second"), ("third", "third")):
        file.write_text(written)
        assert token.now() == is_now
    file.write_bytes(b"\xff")
    assert token.now() == "third"
    file.unlink()
    assert token.now() == "third"
    assert "third" not in repr(token)


def test_the_header() -> None:
    assert authorization(None, None, None) is None
    assert authorization(None, None, Secret("t")) == "Bearer t"
    assert authorization("user", Secret("pass: wörd"), None) == "Basic dXNlcjpwYXNzOiB3w7ZyZA=="
