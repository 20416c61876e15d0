"""``python -IS warm_client.py SOCKET MODULE ARGUMENTS``: what stands for a process of the server."""

import json
import os
import signal
import socket
import sys


def main() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as server:
        server.connect("\0" + sys.argv[1])
        folder = os.getcwd()  # noqa: PTH109 - pathlib takes as long to import as all the rest
        asked = {"arguments": sys.argv[2:], "folder": folder, "environ": dict(os.environ)}
        plain = json.dumps(asked).encode()
        socket.send_fds(server, [len(plain).to_bytes(8, "big")], [0, 1, 2])
        server.sendall(plain)
        said = server.makefile("rb")
        pid = int(said.readline())

        def pass_on(number: int, _: object) -> None:
            os.kill(pid, number)

        for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(one, pass_on)
        status = int(said.readline())
    if status < 0:  # it was ended by a signal: so is this
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main()
