"""Fetches a file out of a container that runs: its ``tar`` writes it to us, as for ``kubectl cp``."""

import os
import re
import tarfile
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from dutycycle.contract.errors import SettingError
from dutycycle.kube.discovery import POD
from dutycycle.kube.errors import KubeError
from dutycycle.kube.remote_command import CommandFailedError
from dutycycle.submit.objects import CannotRunError, cluster_of, explained

_PLACE = re.compile(r"(?:([a-z0-9][a-z0-9-]*)/)?([a-z0-9][a-z0-9.-]*):(/.*[^/])")
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_BLOCK = tarfile.BLOCKSIZE
_ABOUT_THE_NEXT = (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE)
_NAME_BYTES = tarfile.LENGTH_NAME - len("./")
"""What a header has of a name; of a longer one all of it stands in a header before."""
_MOST_HEADER = 1024**2
_NO_PROGRAM = (126, 127)  # as shells have it: cannot be executed, is not there
_MB = 1e6
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PodFile:
    """Names a file in a pod, as ``NAMESPACE/POD:/path``."""

    namespace: str | None
    pod: str
    path: PurePosixPath

    @classmethod
    def of(cls, text: str) -> "PodFile":
        """Raises ``SettingError``."""
        match = _PLACE.fullmatch(text)
        if match is None:
            raise SettingError(f"{text!r}: expected a file, or NAMESPACE/POD:/path/of/a/file")
        return cls(match[1], match[2], PurePosixPath(match[3]))

    def __str__(self) -> str:
        return f"{self.pod}:{self.path}"


@dataclass(frozen=True, slots=True)
class PodSource:
    """Says which cluster, and which container: None for those that kubectl would take."""

    kubeconfig: str | None = None
    context: str | None = None
    container: str | None = None


async def fetch(place: PodFile, source: PodSource, folder: Path, progress: Progress) -> tuple[Path, str]:
    """Return the file, in ``folder`` under its own name, and the pod's uid. Raises ``DutycycleError``."""
    server = await cluster_of(source.kubeconfig, source.context, "dutycycle-profile")
    namespace = place.namespace or server.namespace
    what = f"read {place.path} in pod {namespace}/{place.pod}"
    try:
        pod = await server.read(POD, place.pod, namespace)
        names = [container["name"] for container in pod["spec"]["containers"]]
        given = source.container or (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
        name = given or names[0]
        if name not in names:
            raise CannotRunError(f"cannot {what}: it has no container {name}, but {', '.join(names)}")
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        if not any(
            status["name"] == name and "running" in (status.get("state") or {}) for status in statuses
        ):
            raise CannotRunError(
                f"cannot {what}: its container {name} does not run, and files can be read only while it does"
            )
        container = str(name)
        # The name is ours, and so is where it is written: both are compared with what the archive says.
        command = ("tar", "-c", "-h", "-f", "-", "-C", str(place.path.parent), f"./{place.path.name}")
        pieces = server.output_of(namespace, place.pod, container, command)
        async with aclosing(pieces):
            archive = _Archive(pieces, str(place))
            size = await archive.begin(place.path.name)
            with (folder / place.path.name).open("wb") as file:
                await archive.copy(size, file, progress)
            await archive.end()
    except CommandFailedError as error:
        no_tar = error.code in _NO_PROGRAM or "executable file not found" in error.detail
        why = "its container has no tar" if no_tar else error.detail
        raise CannotRunError(f"cannot {what}: {why}") from error
    except KubeError as error:
        raise explained(error, what, server) from error
    finally:
        await server.close()
    return folder / place.path.name, str(pod["metadata"]["uid"])


class _Archive:
    """Reads what ``tar`` writes, piece by piece: one regular file and no more."""

    def __init__(self, pieces: AsyncGenerator[bytes, None], name: str) -> None:
        self._pieces = pieces
        self._name = name
        self._rest = b""

    async def begin(self, name: str) -> int:
        """Return the size of the file, which is to have this name. It comes next."""
        while True:
            block = await self._exactly(_BLOCK)
            if not any(block):  # an empty archive: tar says why at its end
                await self.end()
            try:
                header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
            except tarfile.HeaderError as error:
                raise self._bad("what came is no archive of tar") from error
            if header.type not in _ABOUT_THE_NEXT:
                break
            await self._exactly(-(-header.size // _BLOCK) * _BLOCK)
        if os.fsencode(header.name).removeprefix(b"./")[:_NAME_BYTES] != os.fsencode(name)[:_NAME_BYTES]:
            raise self._bad(f"tar sent another file, {header.name!r:.100}")
        if not header.isreg():
            raise self._bad("is no regular file")
        return header.size

    async def copy(self, size: int, file: BinaryIO, progress: Progress) -> None:
        """Write so many bytes to ``file``."""
        left = size
        while left:
            piece = await self._some(left)
            file.write(piece)
            left -= len(piece)
            progress(f"{(size - left) / _MB:.0f} of {size / _MB:.0f} MB")

    async def end(self) -> None:
        """Check that nothing but zeros is left, and that tar has not failed."""
        ends = not any(self._rest)
        async for piece in self._pieces:
            ends = ends and not any(piece)
        if not ends:
            raise self._bad("tar sent more than this file")

    async def _exactly(self, size: int) -> bytes:
        if size > _MOST_HEADER:
            raise self._bad("what came is no archive of tar")
        content = b""
        while len(content) < size:
            content += await self._some(size - len(content))
        return content

    async def _some(self, most: int) -> bytes:
        """Return the next bytes, at least one."""
        if not self._rest:
            self._rest = await anext(self._pieces, b"")
            if not self._rest:
                raise self._bad("is cut off: tar ended too early")
        piece, self._rest = self._rest[:most], self._rest[most:]
        return piece

    def _bad(self, why: str) -> CannotRunError:
        return CannotRunError(f"{self._name}: {why}")
