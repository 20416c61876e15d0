"""A PostgreSQL cluster of the tests' own, on a loopback port, without a socket file."""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import psycopg
from psycopg import sql

from tests.support.servers.missing import ServerMissingError
from tests.support.servers.ports import free_port
from tests.support.servers.process import Account, ServerProcess

_DEBIAN = Path("/usr/lib/postgresql")
_USER = "dutycycle"
_START_S = 240

# A crash of the machine may cost the data: it is a test's, and syncing it is most of the time of a test.
_SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "50", "shared_buffers": "32MB"}


class Postgres:
    """One running cluster. Every test takes a database of its own from it."""

    def __init__(self) -> None:
        programs = find_programs()
        self._account = _account()
        self._folder = Path(tempfile.mkdtemp(prefix="dutycycle-postgres-"))
        if self._account:
            os.chown(self._folder, self._account.uid, self._account.gid)
        self._password = secrets.token_hex(16)
        self.port = free_port()
        self._databases = 0
        initdb = programs / "initdb"
        password_file = self._folder / "password"
        password_file.write_text(self._password)
        options = ["--username", _USER, "--pwfile", str(password_file), "--auth", "scram-sha-256"]
        encoding = ["--encoding", "UTF8", "--locale", "C", "--no-sync"]
        done = subprocess.run(
            [initdb, "--pgdata", self._folder / "data", *options, *encoding], capture_output=True, text=True,
            check=False, cwd=self._folder, **(self._account.arguments() if self._account else {}),
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"initdb failed: {done.stdout}{done.stderr}")
        self._command = self._server_command(programs / "postgres")
        self._process = self._started()

    def new_database(self) -> str:
        """Create an empty database, and return its SQLAlchemy URL."""
        self._databases += 1
        name = f"test_{self._databases}"
        with psycopg.connect(self._dsn("postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return f"postgresql+psycopg://{_USER}:{self._password}@127.0.0.1:{self.port}/{name}"

    def stop(self) -> None:
        """End the server in order: connections are cut, the data stay. ``start`` goes on with them."""
        self._process.stop()

    def start(self) -> None:
        """Start it again on the same port."""
        self._process = self._started()

    def ensure_running(self) -> None:
        """Start it again if the test before left it stopped."""
        if not self._process.running():
            self.start()

    def discard(self) -> None:
        """End it, and remove its data."""
        self._process.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _server_command(self, program: Path) -> list[str | Path]:
        settings = {
            **_SETTINGS,
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [program, "-D", self._folder / "data", *options]

    def _started(self) -> ServerProcess:
        # SIGINT is PostgreSQL's fast shutdown; SIGTERM would wait until every client has left.
        process = ServerProcess(
            self._command, self._folder / "postgres.log", account=self._account, stop_signal=signal.SIGINT
        )
        process.wait_until(self._answers, _START_S)
        return process

    def _answers(self) -> bool:
        try:
            psycopg.connect(self._dsn("postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def _dsn(self, database: str) -> str:
        return f"host=127.0.0.1 port={self.port} user={_USER} password={self._password} dbname={database}"


def find_programs() -> Path:
    """The folder of initdb and postgres. Debian keeps them outside PATH, one folder for each version."""
    found = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    if on_path := shutil.which("initdb"):
        return Path(on_path).resolve().parent
    raise ServerMissingError("PostgreSQL needs initdb and postgres (Debian: apt-get install postgresql)")


def _account() -> Account | None:
    """PostgreSQL refuses to run as root: then its own user, or nobody."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise ServerMissingError("PostgreSQL does not run as root, and there is no user postgres or nobody")
