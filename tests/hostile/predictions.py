"""Images, videos and folders to predict, and places to write to, with a good model."""

import functools
import os
from pathlib import Path

from tests.hostile.case import EITHER, ERROR, OK, Case, detflow, put
from tests.hostile.images import image_tables, jpeg
from tests.hostile.models import LOADED, saved_model


def _predict(image, place="{out}/p"):
    return detflow("predict", "--model", "{in}/m", image, "--output", place)


_IMAGES = "jpeg_empty jpeg_65535 png_50000 svg eps gif_65535 tif_tags xbm zeros_1MB"
_PLACES = {
    "pipe": "{in}/pipe.jpg",
    "device": "/dev/zero",
    "missing": "/nope.jpg",
    "url": "http://127.0.0.1:9/x.jpg",
    "video": "{in}/v.mp4",
}


def _predict_cases():
    def odd(folder, chance):
        saved_model("good")(folder, chance)
        os.mkfifo(folder / "pipe.jpg")
        put(folder / "v.mp4", chance.randbytes(10_000))
        put(folder / "f", "x")

    for name in _IMAGES.split():
        write = lambda model, name=name: put(model.parent / "x.jpg", image_tables()[name][0])  # noqa: E731
        yield Case(f"predict/{name}", _predict("{in}/x.jpg"), saved_model("good", write), **LOADED)
    for name, image in _PLACES.items():
        yield Case(f"predict/{name}", _predict(image), odd, **LOADED)
    for name, place in {"file": "{in}/f", "below": "{in}/f/x", "proc": "/proc/nope"}.items():
        yield Case(f"predict/output_{name}", _predict("{in}/a.jpg", place), odd, **LOADED)


def _linked(name, target):
    return lambda folder: (folder / name).symlink_to(target)


def _image(name, size=0):
    def make(folder):
        path = put(Path(os.fsdecode(os.fsencode(folder / name))), jpeg())
        if size:
            os.truncate(path, size)

    return make


_BESIDE = {
    "pipe": (lambda folder: os.mkfifo(folder / "x.jpg"), (ERROR,)),
    "folder": (lambda folder: (folder / "x.jpg").mkdir(), EITHER),
    "device": (_linked("x.jpg", "/dev/zero"), (ERROR,)),
    "loop": (_linked("x.jpg", "x.jpg"), (ERROR,)),
    "dangling": (_linked("x.jpg", "none.jpg"), (ERROR,)),
    "sparse": (_image("x.jpg", 5 << 30), (ERROR,)),
    "png_50000": (lambda folder: put(folder / "x.png", image_tables()["png_50000"][0]), (ERROR,)),
    "video": (lambda folder: put(folder / "x.mp4", bytes(10_000)), (ERROR,)),
    "long_name": (_image("n" * 251 + ".jpg"), EITHER),
    "escape": (_image("\x1b[31m\n.jpg"), EITHER),
    "bytes": (_image("a\udcff.jpg"), EITHER),
    "same_stem": (_image("g.jpeg"), (OK,)),
    "same_number": (lambda folder: (_image("g.jpeg")(folder), _image("g-2.jpg")(folder)), (OK,)),
}


def _goes_on(folder, out, text):
    return "" if list(out.glob("p/g*.json")) else "THE GOOD IMAGE WAS LEFT OUT"


def _folder_cases():
    """Yield folders to predict, of a good image and something beside it."""

    def write(model, change):
        change(put(model.parent / "f/g.jpg", jpeg()).parent)

    for name, (change, expect) in _BESIDE.items():
        build = saved_model("good", functools.partial(write, change=change))
        command, case = _predict("{in}/f"), f"predict/beside_{name}"
        yield Case(case, command, build, expect, check=_goes_on, **LOADED)


def cases():
    """Yield what is predicted by a good model."""
    yield from _predict_cases()
    yield from _folder_cases()
