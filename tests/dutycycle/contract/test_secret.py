"""Goal: a secret is what its file says now, and what it said before while the file says nothing."""

from pathlib import Path

from dutycycle.contract.settings.load import load
from dutycycle.contract.settings.secret import Secret, authorization


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
