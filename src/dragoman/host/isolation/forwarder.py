"""A program inside an isolated agent's sandbox, which connects a port of its network to a socket outside.

    python forwarder.py SOCKET PORT COMMAND [ARGUMENT...]

The sandbox's network has only its own loopback.  This process becomes the command; a child of it passes on the
connections to 127.0.0.1:PORT and ends with the sandbox.  It imports the standard library only.
"""

import contextlib
import os
import socket
import sys
import threading

PIECE = 1 << 16


def pass_on(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(PIECE):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def serve(near: socket.socket, path: str) -> None:
    with near, socket.socket(socket.AF_UNIX) as far:
        try:
            far.connect(path)
        except OSError:
            return
        back = threading.Thread(target=pass_on, args=(far, near), daemon=True)
        back.start()
        pass_on(near, far)
        back.join()


def forward(listening: socket.socket, path: str) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for number in range(3):  # only the command keeps its streams
        os.dup2(null, number)
    while True:
        near, _ = listening.accept()
        threading.Thread(target=serve, args=(near, path), daemon=True).start()


def main() -> None:
    path, port, *command = sys.argv[1:]
    listening = socket.create_server(("127.0.0.1", int(port)))
    if os.fork() == 0:
        try:
            forward(listening, path)
        finally:
            os._exit(1)
    listening.close()
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
