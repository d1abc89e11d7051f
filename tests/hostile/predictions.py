"""Images, videos and folders to predict, and places to write to, with a good model."""

import os
import random
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.hostile.case import EITHER, ERROR, OK, Case, detflow, put
from tests.hostile.images import image_tables, jpeg
from tests.hostile.models import LOADED, saved_model


def _predict_cases() -> Iterator[Case]:
    good = saved_model("good")
    for name in (
        "jpeg_empty",
        "jpeg_65535",
        "png_50000",
        "svg",
        "eps",
        "gif_65535",
        "tif_tags",
        "xbm",
        "zeros_1MB",
    ):

        def build(folder: Path, chance: random.Random, name: str = name) -> None:
            good(folder, chance)
            put(folder / "x.jpg", image_tables()[name][0])

        command = detflow("predict", "--model", "{in}/m", "{in}/x.jpg", "--output", "{out}/p")
        yield Case(name=f"predict/{name}", command=command, build=build, **LOADED)

    def odd(folder: Path, chance: random.Random) -> None:
        good(folder, chance)
        os.mkfifo(folder / "pipe.jpg")
        put(folder / "v.mp4", chance.randbytes(10_000))
        put(folder / "f", "x")

    places = {
        "pipe": "{in}/pipe.jpg",
        "device": "/dev/zero",
        "missing": "/nope.jpg",
        "url": "http://127.0.0.1:9/x.jpg",
    }
    for name, image in (places | {"video": "{in}/v.mp4"}).items():
        command = detflow("predict", "--model", "{in}/m", image, "--output", "{out}/p")
        yield Case(name=f"predict/{name}", command=command, build=odd, **LOADED)
    for name, place in {"file": "{in}/f", "below": "{in}/f/x", "proc": "/proc/nope"}.items():
        command = detflow("predict", "--model", "{in}/m", "{in}/a.jpg", "--output", place)
        yield Case(name=f"predict/output_{name}", command=command, build=odd, **LOADED)


def _linked(name: str, target: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).symlink_to(target)


def _image(name: str, size: int = 0) -> Callable[[Path], Any]:
    def make(folder: Path) -> None:
        path = put(Path(os.fsdecode(os.fsencode(folder / name))), jpeg())
        if size:
            os.truncate(path, size)

    return make


_BESIDE: Mapping[str, tuple[Callable[[Path], Any], tuple[str, ...]]] = {
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


def _goes_on(folder: Path, out: Path, text: str) -> str:
    return "" if list(out.glob("p/g*.json")) else "THE GOOD IMAGE WAS LEFT OUT"


def _folder_cases() -> Iterator[Case]:
    """Yield folders to predict, of a good image and something beside it."""
    for name, (change, expect) in _BESIDE.items():

        def build(folder: Path, chance: random.Random, change: Callable[[Path], Any] = change) -> None:
            saved_model("good")(folder, chance)
            put(folder / "f/g.jpg", jpeg())
            change(folder / "f")

        command = detflow("predict", "--model", "{in}/m", "{in}/f", "--output", "{out}/p")
        case = f"predict/beside_{name}"
        yield Case(name=case, command=command, build=build, expect=expect, check=_goes_on, **LOADED)


def cases() -> Iterator[Case]:
    """Yield what is predicted by a good model."""
    yield from _predict_cases()
    yield from _folder_cases()
