"""What init takes beside folders: zip archives, data.yaml files, lists of images; formats it refuses."""

import functools
import io
import json
import os
import random
import stat
import struct
import zipfile
from pathlib import Path

from tests.hostile.case import ANY, EITHER, ERROR, OK, Case, altered, detflow, put, using
from tests.hostile.data_sets import example_gen, good_images, yolo
from tests.hostile.formats import YOLO_DATA

_INIT = detflow("init", "{in}", "-o", "{out}/w")
_NUMBERS = " ".join(["0.0"] * 14)
_JSON = '{{{}, "annotations": []}}'
_REFUSED = {
    "kitti": ("KITTI", "g0.txt", f"Car {_NUMBERS}\n".encode()),
    "supervisely": ("Supervisely", "a.json", b'{"objects": [{"classTitle": "a", "geometryType": "b"}]}'),
    "darwin": ("Darwin", "a.json", b'{"version": "2.0", "schema_ref": "darwin", "annotations": []}'),
    "via3": ("VIA 3", "a.json", b'{"project": {"pid": "__VIA_PROJECT_ID__"}}'),
    "hugging_face": ("Hugging Face", "metadata.jsonl", b'{"file_name": "g0.jpg", "objects": {}}\n'),
    "parquet": ("Hugging Face", "a.parquet", b"PAR1"),
}
_TAILS = {
    "brackets": b"[" * 1_000_000,
    "line_20MB": b"x" * 20_000_000,
    "control": b"\x1b]0;pwned\x07\0" * 100,
    "binary": random.Random(7).randbytes(100_000),
}


def _names_it(word):
    return lambda folder, out, text: "" if word in text else f"DOES NOT NAME {word}"


def _refused():
    for kind, (word, name, head) in _REFUSED.items():
        for tail, more in {"good": b"", **_TAILS}.items():
            build, check = using(_beside, name, head + more), None
            if tail == "good":
                check = _names_it(word)
                yield Case(f"refused/{kind}_{tail}", example_gen("auto"), build, check=check)
            yield Case(f"refused/init_{kind}_{tail}", _INIT, build, check=check)
    for name in ("a.parquet", "metadata.jsonl", "g0.txt", "a.json", "a.zip", "data.yaml"):
        yield Case(f"refused/pipe_{name}", _INIT, using(_beside, name), EITHER)


def _beside(folder, name, content=None):
    """Write good images and a file, or a pipe."""
    good_images(folder)
    os.mkfifo(folder / name) if content is None else put(folder / name, content)


def _member(name, mode=0, method=zipfile.ZIP_STORED):
    info = zipfile.ZipInfo(name)
    info.external_attr, info.compress_type = mode << 16, method
    return info


def _zip_of(*members):
    """Return an archive of a good data set and of further members."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in _good_members():
            archive.writestr(name, content)
        for member, content in members:
            archive.writestr(_member(member) if isinstance(member, str) else member, content)
    return buffer.getvalue()


@functools.cache
def _good_members():
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        yolo(Path(folder))
        found = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        return tuple((str(path.relative_to(folder)), path.read_bytes()) for path in found)


def _patched(data, name, at, value, local=None):
    """Change a field of a member's entry in the directory, and of its header."""
    changed = bytearray(data)
    entry = data.rindex(b"PK\x01\x02", 0, data.rindex(name.encode()))
    changed[entry + at : entry + at + len(value)] = value
    if local is not None:
        header = data.rindex(b"PK\x03\x04", 0, data.index(b"PK\x01\x02"))
        changed[header + local : header + local + len(value)] = value
    return bytes(changed)


def _of(method, content):
    """Return an archive whose last member's compressed bytes are these."""
    data = _zip_of(("x.bin", content))
    return _patched(data, "x.bin", 10, struct.pack("<H", method), 8)


def _overlapping():
    """Return an archive that lists one member of 16 MB 2,000 times."""
    data = _zip_of((_member("x.bin", method=zipfile.ZIP_DEFLATED), bytes(16 << 20)))
    begin, end = data.rindex(b"PK\x01\x02"), data.rindex(b"PK\x05\x06")
    entries = b"".join(data[begin:end].replace(b"x.bin", b"%05d" % n) for n in range(2000))
    directory = data.index(b"PK\x01\x02")
    count = len(_good_members()) + 2000
    size = begin - directory + len(entries)
    return data[:begin] + entries + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, size, directory, 0)


def _many_members():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for number in range(50_000):
            archive.writestr(_member(f"{number}"), b"")
    return buffer.getvalue()


def _bomb(method):
    return _zip_of((_member("x.bin", method=method), bytes(300_000_000)))


_LINK = stat.S_IFLNK | 0o777
_ZIPS = {
    "good": (_zip_of, (OK,)),
    "dotdot": (lambda: _zip_of(("a/../../PWNED", b"x")), (ERROR,)),
    "absolute": (lambda: _zip_of(("/tmp/PWNED", b"x")), (ERROR,)),
    "backslash": (lambda: _zip_of(("..\\PWNED", b"x")), (ERROR,)),
    "drive": (lambda: _zip_of(("C:PWNED", b"x")), (ERROR,)),
    "link": (lambda: _zip_of((_member("a.txt", _LINK), b"/etc/passwd")), (ERROR,)),
    "through_link": (lambda: _zip_of((_member("a", _LINK), b"/tmp"), ("a/PWNED", b"x")), (ERROR,)),
    "of_pipe": (lambda: _zip_of((_member("a", stat.S_IFIFO | 0o644), b"")), (ERROR,)),
    "setuid": (lambda: _zip_of((_member("a", stat.S_IFREG | 0o6777), b"")), (OK,)),
    "bomb": (lambda: _bomb(zipfile.ZIP_DEFLATED), (ERROR,)),
    "bomb_bzip2": (lambda: _bomb(zipfile.ZIP_BZIP2), (ERROR,)),
    "size_lie": (lambda: _patched(_bomb(zipfile.ZIP_DEFLATED), "x.bin", 24, b"\x0a\0\0\0"), (ERROR,)),
    "size_4GB": (lambda: _patched(_zip_of(("x.bin", b"x")), "x.bin", 24, b"\xfe\xff\xff\xff"), (ERROR,)),
    "overlapping": (_overlapping, (ERROR,)),
    "encrypted": (lambda: _patched(_zip_of(("x.bin", b"x")), "x.bin", 8, b"\1\0", 6), (ERROR,)),
    "twice": (lambda: _zip_of(("x", b"1"), ("./x", b"2")), (ERROR,)),
    "file_and_folder": (lambda: _zip_of(("x", b"1"), ("x/y", b"2")), (ERROR,)),
    "record": (lambda: _zip_of((".detflow-zip", b"x")), EITHER),
    "record_is_folder": (lambda: _zip_of((".detflow-zip/x", b"x")), (ERROR,)),
    "name_300": (lambda: _zip_of(("n" * 300, b"x")), (ERROR,)),
    "name_deep": (lambda: _zip_of(("a/" * 5000 + "x", b"x")), (ERROR,)),
    "name_control": (lambda: _zip_of(("\x1b]0;pwned\x07.txt", b"x")), EITHER),
    "name_null": (lambda: _zip_of(("aXb", b"x")).replace(b"aXb", b"a\0b"), (ERROR,)),
    "name_binary": (lambda: _zip_of(("a\u00e9b", b"x")).replace(b"\xc3\xa9", b"\xff\xfe"), (ERROR,)),
    "crc": (lambda: _patched(_zip_of(("x.bin", b"x")), "x.bin", 16, b"\1\2\3\4"), (ERROR,)),
    "method_99": (lambda: _of(99, b"x" * 100), (ERROR,)),
    "deflate_garbage": (lambda: _of(zipfile.ZIP_DEFLATED, b"\xff" * 100), (ERROR,)),
    "bzip2_garbage": (lambda: _of(zipfile.ZIP_BZIP2, b"\xff" * 100), (ERROR,)),
    "lzma_garbage": (lambda: _of(zipfile.ZIP_LZMA, b"\xff" * 100), (ERROR,)),
    "lzma_empty": (lambda: _of(zipfile.ZIP_LZMA, b"\x09\x14\0\0"), (ERROR,)),
    "lzma_4GB": (lambda: _of(zipfile.ZIP_LZMA, b"\x09\x14\x05\0\x5d\xff\xff\xff\xff" + bytes(100)), (ERROR,)),
    "header_offset": (lambda: _patched(_zip_of(("x.bin", b"x")), "x.bin", 42, b"\xf0\xff\xff\xff"), (ERROR,)),
    "directory_offset": (lambda: _zip_of()[:-6] + b"\xf0\xff\xff\x7f\0\0", (ERROR,)),
    "cut_front": (lambda: _zip_of()[1000:], (ERROR,)),
    "cut_end": (lambda: _zip_of()[:-30], (ERROR,)),
    "nested": (lambda: _zip_of(("more.zip", _zip_of())), EITHER),
    "members_5e4": (_many_members, (ERROR,)),
    "empty": (lambda: b"PK\5\6" + bytes(18), (ERROR,)),
    "no_zip": (lambda: b"hello", (ERROR,)),
}


def _nothing_outside(folder, out, text):
    """Nothing may be written beside the folder, nor anything stay in it where the archive was refused."""
    places = (Path("/tmp/PWNED"), folder / "PWNED", out / "PWNED", out / "w/PWNED")
    left = [path for path in out.rglob("*") if path.is_file() and not path.is_relative_to(out / "home")]
    if any(os.path.lexists(place) for place in places):
        return "WRITTEN OUTSIDE"
    if "Error:" in text and left:
        return f"LEFT {left[0].name}"
    special = [path for path in out.rglob("*") if path.is_file() and path.stat().st_mode & 0o6000]
    return f"SETUID {special[0].name}" if special else ""


def _zips():
    command = detflow("init", "{in}/d.zip", "-o", "{out}/w")
    for name, (made, expect) in _ZIPS.items():
        build = using(lambda folder, made: put(folder / "d.zip", made()), made)
        yield Case(f"zip/{name}", command, build, expect, check=_nothing_outside)
    for number in range(20):
        yield Case(f"zip/noise_{number}", command, _noise, EITHER, check=_nothing_outside)


def _noise(folder, chance):
    put(folder / "d.zip", altered(_zip_of(), chance, (1, 4, 16)))


_LISTS = {
    "lines_1e6": lambda: "images/train/g0.jpg\n" * 1_000_000,
    "missing_1e6": lambda: "".join(f"images/train/n{n}.jpg\n" for n in range(300_000)),
    "dotdot": lambda: "../../../../etc/passwd\n../out/x.jpg\n../../../../etc/passwd.jpg\n",
    "absolute": lambda: "/etc/passwd\n/dev/zero\n/proc/self/environ\n/dev/zero.jpg\n",
    "urls": lambda: "http://127.0.0.1:9/x.jpg\nfile:///etc/passwd\ns3://b/x.jpg\n",
    "line_20MB": lambda: "a/" * 10_000_000 + "x.jpg\n",
    "parts": lambda: ("a/" * 90 + "x.jpg\n") * 100_000,
    "binary": lambda: b"\xff\xfe\0\1\n" * 1000,
    "null_character": lambda: "images/train/g\0.jpg\n",
    "surrogate": lambda: "images/train/\ud800.jpg\n",
    "control": lambda: "\x1b]0;pwned\x07.jpg\n" * 100,
    "blank": lambda: "\n" * 10_000_000,
}


def _list(folder, content):
    yolo(folder, "train: train.txt\nval: images/train\nnames: [cat]\n")
    rest = put(folder / "train.txt", content()).read_bytes()
    put(folder / "train.txt", b"images/train/g1.jpg\n" + rest)


def _lists():
    splits = {"train": {"data": "data.yaml", "split": "train"}, "eval": {"data": "data.yaml", "split": "val"}}
    for name, content in _LISTS.items():
        yield Case(f"list/{name}", example_gen("yolo", json.dumps(splits)), using(_list, content), ANY)
        # If half of the sampled images are missing, the exit code is not 0.
        yield Case(f"list/init_{name}", _INIT, using(_list, content), (*EITHER, "exit 1"))
    command = detflow("init", "{in}/data.yaml", "-o", "{out}/w")
    roots = {"path_etc": "/etc", "path_root": "/"}
    places = {name: f"path: {root}\ntrain: .\nnames: [cat]\n" for name, root in roots.items()}
    for name, text in {**YOLO_DATA, **places}.items():
        yield Case(f"yolo/argument_{name}", command, using(yolo, text), EITHER)


def cases():
    """Yield what init is given in place of a folder, and folders that it refuses by their format."""
    yield from _refused()
    yield from _zips()
    yield from _lists()
