"""A line to the API server that a test can cut: for whoever uses it the server is away, for others not."""

import socket
import threading
from contextlib import suppress

from tests.support.servers.ports import free_port


class Line:
    """From ``port`` on loopback to the server at ``real``, bytes as they are."""

    def __init__(self, real: int) -> None:
        self._real = real
        self.port = free_port()
        self._open: list[socket.socket] = []
        self.mend()

    def mend(self) -> None:
        """Take connections, again."""
        listener = socket.create_server(("127.0.0.1", self.port))
        self._open = [listener]
        threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def cut(self) -> None:
        """Break all connections, and refuse new ones."""
        for one in self._open:
            with suppress(OSError):  # it has ended by itself
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # cut
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", self._real))
                self._open += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=_copy, args=(source, target), daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):  # cut
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
