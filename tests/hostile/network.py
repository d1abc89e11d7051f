"""Mirrors of weights and API servers without end, that drip, that lie; caches that hold no files."""

import gzip
import io
import os
import socket
import tarfile
from collections.abc import Callable

from tests.hostile.case import ERROR, OK, Case, detflow, put, using
from tests.support.local_server import endless

_MODEL = "ssd_mobilenet_v2_fpnlite_320x320_coco17_tpu-8"
_ARCHIVE = f"{_MODEL}.tar.gz"
_GET = detflow("zoo", "get", _MODEL, "--mirror", "{server}")
_OK_HEAD, _PART_HEAD = "HTTP/1.1 200 OK\r\n", "HTTP/1.1 206 Part\r\nContent-Range: "
_CHUNKED = f"{_OK_HEAD}Transfer-Encoding: chunked\r\n\r\n"
Answer = Callable[[socket.socket, bytes], None]


def archive(*more):
    """Return an archive of the zoo's layout; further headers stand before its files."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in ("checkpoint/ckpt-0.index", "checkpoint/ckpt-0.data-00000-of-00001", "pipeline.config"):
            member = tarfile.TarInfo(f"{_MODEL}/{path}")
            member.size = 1000
            tar.addfile(member, io.BytesIO(bytes(1000)))
    return gzip.compress(b"".join(more) + buffer.getvalue(), mtime=0)


def _header(kind, content, name=f"{_MODEL}/x", size=-1):
    info = tarfile.TarInfo(name)
    info.type, info.size = kind, len(content) if size < 0 else size
    return info.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def _send(content, head=_OK_HEAD):
    def answer(connection, request):
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)

    return answer


def _endless(head, piece=bytes(1 << 20), pause=0.0):
    return endless(head.encode(), piece, pause=pause)


def _breaking(connection, request):
    """Send a byte of what is asked for, then close."""
    start = int(request.split(b"bytes=")[1].split(b"-")[0]) if b"bytes=" in request else 0
    state = f"206 Part\r\nContent-Range: bytes {start}-9999999/10000000" if start else "200 OK"
    head = f'HTTP/1.1 {state}\r\nETag: "v"\r\nContent-Length: {10_000_000 - start}\r\n\r\n'
    connection.sendall(head.encode() + b"x")


_SERVERS = {
    "endless": _endless(f"{_OK_HEAD}\r\n"),
    "endless_chunks": _endless(_CHUNKED, b"100000\r\n" + bytes(1 << 20) + b"\r\n"),
    "endless_part": _endless(f"{_PART_HEAD}bytes 0-9/*\r\n\r\n"),
    "endless_headers": _endless(_OK_HEAD, b"X-More: 1\r\n" * 1000),
    "endless_header": _endless(f"{_OK_HEAD}X-", b"x" * 65536),
    "endless_interim": _endless("", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "endless_redirect": _endless("HTTP/1.1 302 Found\r\nLocation: /x\r\n\r\n"),
    "endless_error": _endless("HTTP/1.1 404 None\r\n\r\n"),
    "size_1e12": _endless(f"{_OK_HEAD}Content-Length: 1000000000000\r\n\r\n"),
    "size_digits": _endless(f"{_OK_HEAD}Content-Length: {'9' * 5000}\r\n\r\n"),
    "size_words": _endless(f"{_OK_HEAD}Content-Length: many\r\n\r\n"),
    "size_negative": _endless(f"{_OK_HEAD}Content-Length: -1\r\n\r\n"),
    "range_digits": _endless(f"{_PART_HEAD}bytes 0-{'9' * 5000}/{'9' * 5000}\r\n\r\n"),
    "range_words": _endless(f"{_PART_HEAD}all of it\r\n\r\n"),
    "chunk_negative": _endless(_CHUNKED, b"-5\r\nxxxxx\r\n" * 10_000),
    "chunk_digits": _endless(_CHUNKED, b"f" * 5000 + b"\r\n"),
    "no_http": _send(b"", "SSH-2.0\r\n"),
    "status_digits": _send(b"", f"HTTP/1.1 {'9' * 5000} OK\r\n"),
    "status_control": _send(b"", "HTTP/1.1 404 \x1b]0;pwned\x07\r\n"),
    "to_itself": _send(b"", "HTTP/1.1 302 Found\r\nLocation: /x\r\n"),
    "to_file": _send(b"", "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n"),
    "to_bracket": _send(b"", "HTTP/1.1 302 Found\r\nLocation: http://[::1/x\r\n"),
    "byte_by_byte": _breaking,
    "html": _send(b"<html>login</html>"),
    "empty": _send(b""),
}
_ARCHIVES = {
    "cut": archive()[:-20],
    "pax_digits": archive(_header(tarfile.XHDTYPE, b"9" * 5000 + b" size=1\n")),
    "pax_negative": archive(_header(tarfile.XHDTYPE, b"13 size=-512\n")),
    "sparse_map": archive(_header(tarfile.XHDTYPE, b"23 GNU.sparse.size=99x\n22 GNU.sparse.map=1,a\n")),
    "long_names": archive(_header(tarfile.GNUTYPE_LONGNAME, b"abc\0") * 3000),
    "link": archive(_header(tarfile.SYMTYPE, b"")),
    "pipe": archive(_header(tarfile.FIFOTYPE, b"")),
    "dotdot": archive(_header(tarfile.REGTYPE, b"x", f"{_MODEL}/../../../PWNED")),
    "absolute": archive(_header(tarfile.REGTYPE, b"x", "/tmp/PWNED")),
    "size_3TB": archive(_header(tarfile.REGTYPE, b"", size=3 << 40)),
    "header_8GB": archive(_header(tarfile.XHDTYPE, b"", size=8 << 30)),
}


def _nothing_is_left(folder, out, text):
    large = [path for path in out.rglob("*") if path.is_file() and path.stat().st_size > 1 << 20]
    return f"LEFT {large[0].name} of {large[0].stat().st_size:,} bytes" if large else ""


def _socket(path):
    here = os.open(path.parent, os.O_RDONLY)
    try:  # by a short name: an address has room for 100 characters
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(f"/proc/self/fd/{here}/{path.name}"[:107])
    finally:
        os.close(here)


_ENTRIES = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link": lambda path: path.symlink_to(path.parents[1] / "victim"),
    "socket": _socket,
    "sparse_1TB": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
}


def _write_cache(folder, kind, name):
    """Put something else than a file into a cache that holds a good archive."""
    put(folder / "victim", b"precious")
    put(folder / "mirror" / _ARCHIVE, archive())
    put(folder / name, b"").unlink()
    _ENTRIES[kind](folder / name)


def _kept(folder, out, text):
    return "" if (folder / "victim").read_bytes() == b"precious" else "OVERWRITTEN"


_ALSO_API_SERVERS = "endless endless_chunks endless_headers size_digits size_1e12 no_http html"
_NAMES = dict.fromkeys(("", ".json"), (ERROR,))
_NAMES |= dict.fromkeys((".fetched", ".fetched.part", ".fetched.part.json"), (OK,))


def cases():
    """Yield fetches of a detector, and calls of API servers."""
    for name, answer in _SERVERS.items():
        yield Case(f"network/{name}", _GET, server=answer, check=_nothing_is_left, seconds=120)
    chunks = ("Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n")
    for name, (head, piece) in {"body": ("\r\n", b"x"), "chunks": chunks, "header": ("X-", b"x")}.items():
        drip = _endless(_OK_HEAD + head, piece, 0.5)
        yield Case(f"network/drip_{name}", _GET, server=drip, seconds=480)
    for name, content in _ARCHIVES.items():
        yield Case(f"network/archive_{name}", _GET, server=_send(content), check=_nothing_is_left)
    yield Case("network/good", _GET, server=_send(archive()), expect=(OK,))
    mirrored = (*_GET[:-1], "{in}/mirror")
    env = {"DETFLOW_CACHE": "{in}"}
    for kind in _ENTRIES:
        for name, expect in _NAMES.items():
            build = using(_write_cache, kind, f"zoo/{_ARCHIVE}{name}")
            yield Case(f"cache/{kind}{name}", mirrored, build, expect, env=env, check=_kept)
        build = using(_write_cache, kind, f"mirror/{_ARCHIVE}")
        yield Case(f"cache/mirror_{kind}", mirrored, build, check=_kept)
    runs = detflow("runs", "list", "--host", "{server}", "--timeout", "5")
    for name in _ALSO_API_SERVERS.split():
        yield Case(f"network/runs_{name}", runs, server=_SERVERS[name])
    drip = _endless(f"{_OK_HEAD}Content-Length: 1000\r\n\r\n", b" ", 0.5)
    yield Case("network/runs_drip", runs, server=drip)
