"""A server on this machine that answers whatever a test wants, well formed or not."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def serve_raw(answer: Callable[[socket.socket, bytes], None]) -> Iterator[str]:
    """Yield the address of a server; a function gets each connection, closed afterwards, and its head."""

    def handle(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                piece = connection.recv(4096)
                if not piece:
                    return
                head += piece
            answer(connection, head)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def once(data: bytes) -> Callable[[socket.socket, bytes], None]:
    """Answer with these bytes."""
    return lambda connection, request: connection.sendall(data)


def endless(head: bytes, piece: bytes, *, pause: float = 0.0) -> Callable[[socket.socket, bytes], None]:
    """Answer with a head and then with a piece again and again."""

    def answer(connection: socket.socket, request: bytes) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(piece)
            time.sleep(pause)

    return answer
