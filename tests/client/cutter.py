"""A proxy that cuts off, or holds back, a reply after the request has been executed."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from pathlib import Path


class Cutter:
    """Passes requests on to a server's socket, and replies back.

    After `cut(text)` the next request that contains the text is executed, but the client
    gets `head` bytes of its reply and then the end of the connection. After `hold(text)`
    it gets nothing, and the connection stays.
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.path = str(Path(upstream).with_name("cutter.sock"))
        self.cuts = 0
        #: The requests that reached the server, as they were sent.
        self.seen: list[bytes] = []
        #: How many replies are held back.
        self.held = 0
        self._holding = False
        self._text: bytes | None = None
        self._times = 0
        self._head = 0
        self._listener = socket.socket(socket.AF_UNIX)
        self._closing, self._wake = socket.socketpair()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Cutter:
        self._listener.bind(self.path)
        self._listener.listen()
        self._start(self._accept)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._wake.close()
        for thread in self._threads:
            thread.join()
        for end in (self._listener, self._closing):
            end.close()
        Path(self.path).unlink()

    def cut(self, text: str, *, times: int = 1, head: int = 0) -> None:
        """Cut the replies to the next requests that contain this text."""
        self.seen.clear()
        self.cuts = 0
        self._text, self._times, self._head = text.encode(), times, head
        self._holding = False

    def hold(self, text: str) -> None:
        """Hold back the reply to the next request that contains this text."""
        self.cut(text)
        self._holding = True

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while self._wait(self._listener):
            client, _ = self._listener.accept()
            self._start(self._serve, client)

    def _wait(self, *ends: socket.socket) -> list[socket.socket]:
        ready, _, _ = select.select([*ends, self._closing], [], [])
        return [] if self._closing in ready else ready

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        server.connect(self.upstream)
        cutting = False
        with client, server, contextlib.suppress(ConnectionError):
            while ready := self._wait(client, server):
                if client in ready:
                    request = client.recv(1 << 20)
                    if not request:
                        return
                    self.seen.append(request)
                    if self._text and self._times and self._text in request:
                        self._times -= 1
                        cutting = True
                    server.sendall(request)
                elif server in ready:
                    reply = server.recv(1 << 20)
                    if not reply:
                        return
                    if cutting and self._holding:
                        self.held += 1
                    elif cutting:
                        # The reply is here, so the request was executed.
                        client.sendall(reply[: self._head])
                        self.cuts += 1
                        return
                    else:
                        client.sendall(reply)
