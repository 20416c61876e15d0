"""What a container may send instead of the file: an API server that is played, with the frames of an exec."""

import asyncio
import io
import json
import signal
import subprocess
import sys
import tarfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from dutycycle.contract.errors import DutycycleError, SettingError
from dutycycle.submit.fetch import PodFile, PodSource, fetch
from tests.support.processes.commands import environ
from tests.support.servers.kube.client import kubeconfig

CONTENT = bytes(range(256)) * 1172 + b"."
OUTPUT, ERRORS, STATUS = b"\x01", b"\x02", b"\x03"
GOOD = STATUS + b'{"status":"Success"}'
POD = {
    "metadata": {"uid": "u", "annotations": {"kubectl.kubernetes.io/default-container": "main"}},
    "spec": {"containers": [{"name": "side"}, {"name": "main"}]},
    "status": {"containerStatuses": [{"name": "main", "state": {"running": {}}}]},
}
PLACE = PodFile.of("ml/bert:/tmp/r.sqlite")


def archive(
    *members: tuple[str, bytes], form: int = tarfile.GNU_FORMAT, kind: bytes = tarfile.REGTYPE
) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=form) as one:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(content), kind, "/etc/shadow"
            info.pax_headers = {"mtime": "1.5"} if form == tarfile.PAX_FORMAT else {}
            one.addfile(info, io.BytesIO(content))
    return written.getvalue()


def failed(code: int, *said: bytes) -> list[bytes]:
    causes = {"causes": [{"reason": "ExitCode", "message": str(code)}]}
    status = {"status": "Failure", "message": f"command terminated: {code}", "details": causes}
    return [*(ERRORS + one for one in said), STATUS + json.dumps(status).encode()]


def not_started(message: str) -> list[bytes]:
    return [STATUS + json.dumps({"status": "Failure", "message": message}).encode()]


def sent(content: bytes, *end: bytes) -> list[bytes]:
    """In pieces that end anywhere."""
    return [OUTPUT + content[at : at + 7001] for at in range(0, len(content), 7001)] + list(end or [GOOD])


class Played:
    """An API server with one pod. ``frames``: what its exec sends; ``asked``: the queries."""

    def __init__(self, folder: Path) -> None:
        self.frames: Sequence[bytes] = ()
        self.asked: list[list[tuple[str, str]]] = []
        self.refuses: tuple[int, str] | None = None
        self.sent, self.ends = asyncio.Event(), asyncio.Event()
        self.ends.set()
        self.kubeconfig = folder / "kubeconfig"
        self.out = folder / "out"
        self.out.mkdir()

    async def exec(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(list(request.query.items()))
        if self.refuses is not None:
            return web.json_response({"message": self.refuses[1]}, status=self.refuses[0])
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        for one in self.frames:
            await socket.send_bytes(one)
        self.sent.set()
        await self.ends.wait()
        await socket.close()
        return socket

    async def pod(self, _: web.Request) -> web.Response:
        return web.json_response(POD)


@pytest.fixture
async def played(tmp_path: Path) -> AsyncIterator[Played]:
    one, app = Played(tmp_path), web.Application()
    app.router.add_get("/api/v1/namespaces/ml/pods/bert", one.pod)
    app.router.add_get("/api/v1/namespaces/ml/pods/bert/exec", one.exec)
    async with TestServer(app) as server:
        kubeconfig(one.kubeconfig, str(server.make_url("")))
        yield one


async def fetched(played: Played, place: PodFile = PLACE) -> tuple[Path, str]:
    return await fetch(place, PodSource(str(played.kubeconfig)), played.out, lambda _: None)


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT, tarfile.PAX_FORMAT])
async def test_the_file_comes_as_it_is(played: Played, form: int) -> None:
    played.frames = [ERRORS + b"tar: a remark", *sent(archive(("./r.sqlite", CONTENT), form=form))]
    file, uid = await fetched(played)
    assert (file, uid, file.read_bytes()) == (played.out / "r.sqlite", "u", CONTENT)
    (query,) = played.asked
    assert [value for name, value in query if name == "command"] == [
        "tar", "-c", "-h", "-f", "-", "-C", "/tmp", "./r.sqlite",
    ]  # fmt: skip
    assert ("container", "main") in query


@pytest.mark.parametrize("name", ["ä" * 60, "r" * 180, "-x"])
async def test_a_name_may_be_long(played: Played, name: str) -> None:
    played.frames = sent(archive((f"./{name}", CONTENT)))
    file, _ = await fetched(played, PodFile.of(f"ml/bert:/data/{name}"))
    assert (file.name, file.read_bytes()) == (name, CONTENT)


ONE = archive(("./r.sqlite", CONTENT))
CHANGED = b"tar: ./r.sqlite: file changed as we read it\nmore"


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (sent(archive(("../../r.sqlite", CONTENT))), "r.sqlite: tar sent another file, '../../r.sqlite'"),
        (sent(archive(("/etc/passwd", CONTENT))), "tar sent another file, '/etc/passwd'"),
        (sent(archive(("./r.sqlite", b"a"), ("../x", b"b"))), "r.sqlite: tar sent more than this file"),
        (sent(archive(("./r.sqlite", b""), kind=tarfile.SYMTYPE)), "bert:/tmp/r.sqlite: is no regular file"),
        (sent(archive(("./r.sqlite", b""), kind=tarfile.LNKTYPE)), "is no regular file"),
        (sent(b"no archive" * 200), "what came is no archive of tar"),
        (sent(ONE[:100_000]), "bert:/tmp/r.sqlite: is cut off: tar ended too early"),
        (sent(ONE)[:-1], "the connection ended before the command did; check the cluster and --context"),
        (sent(ONE)[:9], "the connection ended before the command did"),
        (sent(ONE, *failed(1, CHANGED)), "bert: tar: ./r.sqlite: file changed as we read it"),
        (
            sent(bytes(10240), *failed(2, b"tar: ./r.sqlite: Cannot ", b"stat\n")),
            "tar: ./r.sqlite: Cannot stat",
        ),
        (failed(127), "cannot read /tmp/r.sqlite in pod ml/bert: its container has no tar"),
        (not_started('exec: "tar": executable file not found in $PATH'), "its container has no tar"),
        (not_started("container not\n found"), "bert: container not found"),
    ],
)
async def test_what_is_not_the_file_is_one_line(played: Played, frames: list[bytes], message: str) -> None:
    played.frames = frames
    with pytest.raises(DutycycleError) as failure:
        await fetched(played)
    assert message in str(failure.value)
    assert "\n" not in str(failure.value)
    assert {one.name for one in played.out.iterdir()} <= {"r.sqlite"}


FORBIDDEN = 'pods "bert" is forbidden: User "jane" cannot get resource "pods/exec"'


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (403, FORBIDDEN, f"cannot read /tmp/r.sqlite in pod ml/bert: {FORBIDDEN}"),
        (400, "container main is not valid", "bert: container main is not valid"),
        (500, "error dialing backend: no route to host", "bert: error dialing backend: no route to host"),
        (200, "no Status", "bert: no WebSocket was opened"),
    ],
)
async def test_why_it_is_refused(played: Played, status: int, message: str, expected: str) -> None:
    played.refuses = status, message
    with pytest.raises(DutycycleError) as failure:
        await fetched(played)
    assert expected in str(failure.value)


@pytest.mark.parametrize(
    ("number", "status", "said"),
    [(signal.SIGINT, 1, "dutycycle: interrupted\n"), (signal.SIGTERM, 128 + signal.SIGTERM, "")],
)
async def test_a_signal_leaves_nothing_behind(
    played: Played, number: signal.Signals, status: int, said: str
) -> None:
    played.frames = sent(ONE)[:9]
    played.ends.clear()
    command = ("-m", "dutycycle", "profile", "ml/bert:/tmp/r.sqlite", "--kubeconfig", str(played.kubeconfig))
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, env=environ() | {"TMPDIR": str(played.out)}, stderr=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(240):
            await played.sent.wait()
            process.send_signal(number)
            _, stderr = await process.communicate()
    finally:
        played.ends.set()
    assert (process.returncode, stderr.decode()) == (status, said)
    assert list(played.out.iterdir()) == []


@pytest.mark.parametrize("text", ["bert:/", "a/b/c:/x", "Bert:/x", "ml/bert:/x/", "../x:/y"])
def test_what_is_no_place(text: str) -> None:
    with pytest.raises(SettingError, match="expected a file, or NAMESPACE/POD:/path/of/a/file"):
        PodFile.of(text)
