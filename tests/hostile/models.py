"""Models: damaged, lying, writing files, taking memory; and what a good one is to predict, and where to."""

import atexit
import dataclasses
import functools
import io
import os
import random
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import flatbuffers

from tests.hostile.case import EITHER, ERROR, OK, Case, altered, detflow, put
from tests.hostile.images import image_tables, jpeg
from tests.hostile.texts import DIGITS

LOADED = {"megabytes": 2000, "seconds": 60.0}


@functools.cache
def _seeds():
    """Return a folder of models that TensorFlow has written, made once."""
    folder = Path(tempfile.mkdtemp(prefix="hostile-seeds-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    command = [sys.executable, "-m", "tests.hostile.seed_models", str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def _flat_bomb(subgraphs, tensors, operators):
    """Return a model whose vectors hold one table again and again."""
    builder = flatbuffers.Builder(1 << 16)

    def vector(items):
        builder.StartVector(4, len(items), 4)
        for item in reversed(items):
            builder.PrependUOffsetTRelative(item)
        return int(builder.EndVector())

    def table(slots, fields):
        builder.StartObject(slots)
        for slot, value in fields.items():
            builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        return int(builder.EndObject())

    name = builder.CreateString("x" * 1000)
    builder.StartVector(4, 1000, 4)
    for _ in range(1000):
        builder.PrependInt32(0)
    numbers = builder.EndVector()
    tensor = table(8, {0: numbers, 3: name})
    operator = table(9, {1: numbers, 2: numbers})
    fields = {0: vector([tensor] * tensors), 1: numbers, 2: numbers, 3: vector([operator] * operators)}
    graph = table(5, {**fields, 4: name})
    code, buffer = table(4, {1: name}), table(1, {})
    pair = table(2, {0: name})
    signature = table(5, {0: vector([pair] * tensors), 1: vector([pair] * tensors), 2: name})
    counts = {1: (code, tensors), 2: (graph, subgraphs), 4: (buffer, tensors), 6: (pair, tensors)}
    counts |= {7: (signature, subgraphs)}
    model = {slot: vector([item] * count) for slot, (item, count) in counts.items()}
    builder.Finish(table(8, model), b"TFL3")
    return bytes(builder.Output())


def _zipped(content, name, data, method=zipfile.ZIP_STORED):
    """Append a file, as metadata's labels are."""
    buffer = io.BytesIO(content)
    buffer.seek(0, 2)
    with zipfile.ZipFile(buffer, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name), data, method)
    return buffer.getvalue()


def _flipped(content, chance):
    return altered(content, chance, (1, 4, 16, 64), 8)


def _tflite(name, chance):
    good = (_seeds() / "int8.tflite").read_bytes()
    kind, _, number = name.partition("-")
    made = {
        "good": lambda: good,
        "empty": lambda: b"",
        "text": lambda: b"hello",
        "magic": lambda: b"\0\0\0\0TFL3",
        "garbage": lambda: b"\x10\0\0\0TFL3" + chance.randbytes(5000),
        "root": lambda: b"\xff\xff\xff\x7fTFL3" + bytes(100),
        "cut": lambda: good[: len(good) * int(number) // 10],
        "flip": lambda: _flipped(good, chance),
        "bomb_tensors": lambda: _flat_bomb(1500, 1500, 1),
        "bomb_operators": lambda: _flat_bomb(1500, 1, 1500),
        "bomb_wide": lambda: _flat_bomb(1, 100_000, 100_000),
        "zip_bomb": lambda: _zipped(good, "labels.txt", b"a\n" * 200_000_000, zipfile.ZIP_DEFLATED),
        "zip_lzma": lambda: _zipped(good, "labels.txt", b"a\n", zipfile.ZIP_LZMA),
        "zip_dotdot": lambda: _zipped(good, "../../labels.txt", b"a\nb\n"),
        "zip_control": lambda: _zipped(good, "labels.txt", b"\x1b[31m<script>\n" * 10),
        "sparse_5GB": lambda: good,
    }
    return made[kind]()


def _tflite_cases():
    names = "empty text magic garbage root bomb_tensors bomb_operators bomb_wide zip_bomb zip_lzma zip_dotdot"
    plain = [*names.split(), "zip_control", "sparse_5GB", *(f"cut-{n}" for n in range(1, 10, 2))]
    verbs = {
        "inspect": detflow("inspect", "{in}/m.tflite"),
        "bench": detflow("bench", "{in}/m.tflite", "--runs", "2"),
        "predict": detflow("predict", "--model", "{in}/m.tflite", "{in}/a.jpg", "--output", "{out}/p"),
    }
    for verb, command in verbs.items():
        for name in ("good", *plain, *(f"flip-{n}" for n in range(6 if verb == "predict" else 16))):

            def build(folder, chance, name=name):
                put(folder / "a.jpg", jpeg())
                put(folder / "m.tflite", _tflite(name, chance))
                if name == "sparse_5GB":
                    os.truncate(folder / "m.tflite", 5 << 30)

            expect = (OK,) if name == "good" and verb != "predict" else EITHER
            yield Case(f"tflite/{verb}_{name}", command, build, expect, **LOADED)


def _cut(path, size):
    return lambda folder: os.truncate(folder / path, size)


def _garbage(path, content):
    return lambda folder: put(folder / path, content)


def _pipe(path):
    return lambda folder: ((folder / path).unlink(), os.mkfifo(folder / path))


_DATA = "variables/variables.data-00000-of-00001"
_BROKEN = {
    "pb_empty": _garbage("saved_model.pb", b""),
    "pb_garbage": _garbage("saved_model.pb", random.Random(3).randbytes(2000)),
    "pb_cut": _cut("saved_model.pb", 500),
    "pb_sparse": _cut("saved_model.pb", 5 << 30),
    "pb_pipe": _pipe("saved_model.pb"),
    "pb_folder": lambda folder: ((folder / "saved_model.pb").unlink(), (folder / "saved_model.pb").mkdir()),
    "no_variables": lambda folder: shutil.rmtree(folder / "variables"),
    "index_cut": _cut("variables/variables.index", 10),
    "index_garbage": _garbage("variables/variables.index", random.Random(4).randbytes(500)),
    "data_cut": _cut(_DATA, 0),
    "data_missing": lambda folder: (folder / _DATA).unlink(),
    "data_pipe": _pipe(_DATA),
    "fingerprint_pipe": _pipe("fingerprint.pb"),
    "fingerprint": _garbage("fingerprint.pb", b"\xff" * 50),
}
_HARMLESS = ("class_1e20", "boxes_1e30", "count_1e30", "resource")
_HOSTILE = """writes reads resource hidden_resource signatures_at_root no_structure node_ids no_signature
no_boxes boxes_shape boxes_text count_nan count_1e30 score_nan class_1e20 boxes_1e30 memory endless fails"""


def saved_model(name, change=lambda model: None):
    """Return what writes an image and a model, and changes the model."""

    def build(folder, chance):
        put(folder / "a.jpg", jpeg())
        change(Path(shutil.copytree(_seeds() / name, folder / "m")))

    return build


def _flip(path, chance):
    path.write_bytes(_flipped(path.read_bytes(), chance))


def _flip_graph(folder, chance):
    saved_model("good")(folder, chance)
    _flip(folder / "m/saved_model.pb", chance)


def _saved_model_cases():
    predict = detflow("predict", "--model", "{in}/m", "{in}/a.jpg", "--output", "{out}/p")
    builds = {"good": (saved_model("good"), (OK,))}
    for name in _HOSTILE.split():
        builds[name] = (saved_model(name), EITHER if name in _HARMLESS else (ERROR,))
    for name, change in _BROKEN.items():
        builds[name] = (saved_model("good", change), (ERROR,))
    for number in range(8):
        builds[f"flip_{number}"] = (_flip_graph, EITHER)
    for name, (build, expect) in builds.items():
        case = Case(f"saved_model/{name}", predict, build, expect, **LOADED)
        watched = name in ("memory", "endless")
        limits = {"DETFLOW_MODEL_SECONDS": "15", "DETFLOW_MODEL_GB": "3", "TF_CPP_MIN_LOG_LEVEL": "3"}
        yield dataclasses.replace(case, fresh=True, env=limits) if watched else case
        if not watched:
            inspect = detflow("inspect", "{in}/m")
            yield Case(f"saved_model/inspect_{name}", inspect, build, EITHER, **LOADED)


def _index(path, shape, kind=1, **fields):
    """Write the index of a checkpoint of one variable, as TensorFlow's tensor_bundle.proto has it."""
    from tensorflow.core.protobuf import tensor_bundle_pb2

    from tests.support.checkpoint_damage import write_table

    header = tensor_bundle_pb2.BundleHeaderProto(num_shards=1)
    header.version.producer = 1
    entry = tensor_bundle_pb2.BundleEntryProto(dtype=kind, **fields)
    for size in shape:
        entry.shape.dim.add().size = size
    names = (b"_CHECKPOINTABLE_OBJECT_GRAPH", b"model/.ATTRIBUTES/VARIABLE_VALUE")
    entries = dict.fromkeys(names, entry.SerializeToString())
    write_table(path, {b"": header.SerializeToString(), **entries})


_SHAPES = {
    "overflow": ([2**62, 2**62], {"size": 4}),
    "2e62": ([2**62], {"size": 2**62}),
    "negative": ([-5], {"size": 4}),
    "300": ([1] * 300, {"size": 4}),
    "255": ([2] * 255, {"size": 4}),
    "zero_overflow": ([0, 2**62, 2**62], {"size": 0}),
    "offset": ([1], {"size": 4, "offset": 2**62}),
    "offset_negative": ([1], {"size": 4, "offset": -1}),
    "size_negative": ([1], {"size": -1}),
    "shard": ([1], {"size": 4, "shard_id": 2**30}),
    "kind": ([1], {"size": 4, "kind": 9999}),
    "kind_text": ([2**40], {"size": 2**40, "kind": 7}),
    "kind_variant": ([1], {"size": 4, "kind": 21}),
}


def _checkpoint(change):
    def build(folder, chance):
        for name in ("ckpt-0.index", "ckpt-0.data-00000-of-00001"):
            shutil.copy(_seeds() / name, folder)
        put(folder / "m.pbtxt", "".join(f'item {{ id: {n} name: "c{n}" }}\n' for n in range(1, 11)))
        change(folder, chance)

    return build


def _checkpoint_cases():
    index, data = "ckpt-0.index", "ckpt-0.data-00000-of-00001"
    changes = {
        "another": lambda folder, chance: None,
        "index_empty": lambda folder, chance: put(folder / index, b""),
        "index_garbage": lambda folder, chance: put(folder / index, chance.randbytes(3000)),
        "index_cut": lambda folder, chance: os.truncate(folder / index, 60),
        "index_pipe": lambda folder, chance: _pipe(index)(folder),
        "data_missing": lambda folder, chance: (folder / data).unlink(),
        "data_cut": lambda folder, chance: os.truncate(folder / data, 10),
        "data_pipe": lambda folder, chance: _pipe(data)(folder),
        "pickle": lambda folder, chance: put(folder / index, b"cos\nsystem\n(S'touch PWNED'\ntR."),
    }
    for name, (shape, fields) in _SHAPES.items():
        write = functools.partial(_index, shape=shape, **fields)
        changes[f"shape_{name}"] = lambda folder, chance, write=write: write(folder / index)
    for number in range(8):
        changes[f"flip_{number}"] = lambda folder, chance: _flip(folder / index, chance)
    given = ("--checkpoint", "{in}/ckpt-0", "--label-map", "{in}/m.pbtxt", "--output", "{out}/i")
    command = detflow("import", "--config", f"{DIGITS}/pipeline.config", *given)
    for name, change in changes.items():
        yield Case(f"checkpoint/{name}", command, _checkpoint(change), **LOADED)


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
    """Yield foreign models for every verb that opens one, and what is predicted by a good one."""
    yield from _tflite_cases()
    yield from _saved_model_cases()
    yield from _checkpoint_cases()
    yield from _predict_cases()
    yield from _folder_cases()
