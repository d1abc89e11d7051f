"""Mirrors of weights and API servers without end, that drip, that lie."""

import gzip
import io
import tarfile

from tests.hostile.case import OK, Case, detflow
from tests.support.local_server import endless

_MODEL = "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"
_GET = detflow("zoo", "get", _MODEL, "--mirror", "{server}")
_OK_HEAD = "HTTP/1.1 200 OK\r\n"
_CHUNKED = f"{_OK_HEAD}Transfer-Encoding: chunked\r\n\r\n"


def archive():
    """Return an archive of the zoo's layout."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in ("checkpoint/ckpt-0.index", "checkpoint/ckpt-0.data-00000-of-00001", "pipeline.config"):
            member = tarfile.TarInfo(f"{_MODEL}/{path}")
            member.size = 1000
            tar.addfile(member, io.BytesIO(bytes(1000)))
    return gzip.compress(buffer.getvalue(), mtime=0)


def _send(content, head=_OK_HEAD):
    def answer(connection, request):
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)

    return answer


def _endless(head, piece=bytes(1 << 20), pause=0.0):
    return endless(head.encode(), piece, pause=pause)


_SERVERS = {
    "endless": _endless(f"{_OK_HEAD}\r\n"),
    "endless_chunks": _endless(_CHUNKED, b"100000\r\n" + bytes(1 << 20) + b"\r\n"),
    "endless_headers": _endless(_OK_HEAD, b"X-More: 1\r\n" * 1000),
    "endless_header": _endless(f"{_OK_HEAD}X-", b"x" * 65536),
    "endless_error": _endless("HTTP/1.1 404 None\r\n\r\n"),
    "size_1e12": _endless(f"{_OK_HEAD}Content-Length: 1000000000000\r\n\r\n"),
    "size_digits": _endless(f"{_OK_HEAD}Content-Length: {'9' * 5000}\r\n\r\n"),
    "chunk_negative": _endless(_CHUNKED, b"-5\r\nxxxxx\r\n" * 10_000),
    "chunk_digits": _endless(_CHUNKED, b"f" * 5000 + b"\r\n"),
    "no_http": _send(b"", "SSH-2.0\r\n"),
    "status_digits": _send(b"", f"HTTP/1.1 {'9' * 5000} OK\r\n"),
    "status_control": _send(b"", "HTTP/1.1 404 \x1b]0;pwned\x07\r\n"),
    "to_bracket": _send(b"", "HTTP/1.1 302 Found\r\nLocation: http://[::1/x\r\n"),
    "html": _send(b"<html>login</html>"),
    "empty": _send(b""),
}


def _nothing_is_left(folder, out, text):
    large = [path for path in out.rglob("*") if path.is_file() and path.stat().st_size > 1 << 20]
    return f"LEFT {large[0].name} of {large[0].stat().st_size:,} bytes" if large else ""


_ALSO_API_SERVERS = "endless endless_chunks endless_headers size_digits size_1e12 no_http html"


def cases():
    """Yield fetches of a detector, and calls of API servers."""
    for name, answer in _SERVERS.items():
        yield Case(f"network/{name}", _GET, server=answer, check=_nothing_is_left, seconds=120)
    yield Case("network/good", _GET, server=_send(archive()), expect=(OK,))
    runs = detflow("runs", "list", "--host", "{server}", "--timeout", "5")
    for name in _ALSO_API_SERVERS.split():
        yield Case(f"network/runs_{name}", runs, server=_SERVERS[name])
    drip = _endless(f"{_OK_HEAD}Content-Length: 1000\r\n\r\n", b" ", 0.5)
    yield Case("network/runs_drip", runs, server=drip)
