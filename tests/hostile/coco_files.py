"""Data sets of COCO, Create ML and VIA: wrong values in every field, and files that are too much."""

import functools
import gzip
import itertools
import json
import os

from tests.hostile.case import ANY, EITHER, ERROR, OK, QUARANTINE, Case, detflow, put, using
from tests.hostile.data_sets import RATIO, coco, example_gen, good_images
from tests.hostile.images import jpeg

_Q, _QO, _QE = (QUARANTINE,), (QUARANTINE, OK), (QUARANTINE, ERROR)
_IMAGE = {"id": 1, "file_name": "x.jpg", "width": 64, "height": 48}
_BOX = {"id": 1, "image_id": 1, "bbox": [1, 1, 5, 5], "category_id": 1, "area": 25, "iscrowd": 0}
_NAN, _INF, _LONG = float("nan"), float("inf"), 10**4000

_BOXES = {
    "nan": [_NAN, 1, 5, 5],
    "infinite": [1, 1, _INF, 5],
    "negative": [1, 1, -5, 5],
    "zero": [1, 1, 0, 0],
    "text": ["1", "1", "5", "5"],
    "null": [None] * 4,
    "three": [1, 2, 3],
    "400_digits": [1, 1, 10**400, 5],
    "1e308": [1e308, 1, 1e308, 5],
    "nested": [[1, 1, 5, 5]],
    "map": {"x": 1},
    "bool": [True] * 4,
    "outside": [60, 40, 50, 50],
    "empty": [],
}
_IDS = {"text": "1", "nan": _NAN, "digits": _LONG, "list": [1], "null": None, "half": 1.5}
_IDS |= {"long": "a" * 1_000_000}
_IDS |= {"html": "<script>alert(1)</script>", "control": "\x1b[31mred\n\x00", "surrogate": "\ud800"}
_SIZES = {"zero": 0, "negative": -5, "nan": _NAN, "text": "64", "half": 64.5, "digits": _LONG}
_SIZES |= {"list": [64], "wrong": 640}
_NAMES = {
    "dotdot": "../a.json",
    "passwd": "a/b/../../../../../../etc/passwd",
    "device": "/dev/zero",
    "null_character": "x\0.jpg",
    "url": "http://127.0.0.1:9/none.jpg",
    "store": "s3://bucket/none.jpg",
    "file_url": "file:///etc/passwd",
    "empty": "",
    "null": None,
    "list": ["x.jpg"],
    "control": "\x1b]0;pwn\x07.jpg",
    "long": "a" * 5000 + ".jpg",
    "deep": "a/" * 20_000 + "x.jpg",
    "surrogate": "\ud800.jpg",
    "windows": "C:\\data\\none.jpg",
    "glob": "*.jpg",
}
_GOOD_NAMES = ("\u00e9.jpg", "\U0001f600.jpg", "a'b\"c.jpg", "{x}%s.jpg", "-rf.jpg")
_NAMES_ELSEWHERE = ("http://127.0.0.1:9/x.jpg", "s3://bucket/x.jpg", "C:\\data\\x.jpg", "/mnt/data/x.jpg")
_ANNOTATIONS = {
    "area_text": ({**_BOX, "area": "25"}, _Q),
    "area_nan": ({**_BOX, "area": _NAN}, _Q),
    "crowd_2": ({**_BOX, "iscrowd": 2}, _Q),
    "crowd_list": ({**_BOX, "iscrowd": [1]}, _Q),
    "class_unknown": ({**_BOX, "category_id": 99}, _Q),
    "class_list": ({**_BOX, "category_id": [1]}, _Q),
    "class_null": ({**_BOX, "category_id": None}, _Q),
    "image_unknown": ({**_BOX, "image_id": 77}, _Q),
    "null": (None, _Q),
    "without_image": ({k: v for k, v in _BOX.items() if k != "image_id"}, _Q),
    "without_box": ({k: v for k, v in _BOX.items() if k != "bbox"}, _Q),
    "without_class": ({k: v for k, v in _BOX.items() if k != "category_id"}, _Q),
    "list": ([1, 2], _Q),
    "rle_1e18": ({**_BOX, "segmentation": {"counts": "\x01\x02zz", "size": [10**9, 10**9]}}, _QO),
    "rle_50000": ({**_BOX, "segmentation": {"counts": [2_500_000_000], "size": [50_000, 50_000]}}, _QO),
    "polygon_text": ({**_BOX, "segmentation": [[["a"]]]}, _QO),
    "polygon_1e6": ({**_BOX, "segmentation": [[1, 1] * 500_000]}, _QO),
    "keypoints_text": ({**_BOX, "keypoints": "x"}, _QO),
}
_VERIFIED = {"number": (5, _Q), "nested": ([[1]], _Q), "1e6": ([1] * 1_000_000, (OK,))}
_CATEGORIES = {
    "same_id": ([{"id": 1, "name": "a"}, {"id": 1, "name": "b"}], (ERROR,)),
    "same_name": ([{"id": 1, "name": "a"}, {"id": 2, "name": "a"}], (ERROR,)),
    "text_id": ([{"id": "1", "name": "a"}], (ERROR,)),
    "no_name": ([{"id": 1}], (ERROR,)),
    "control": ([{"id": 1, "name": "a\x1b[31m"}], (ERROR,)),
    "surrogate": ([{"id": 1, "name": "\ud800"}], (ERROR,)),
    "null": ([None], (ERROR,)),
    "bool_id": ([{"id": True, "name": "x"}], (ERROR,)),
    "none": ([], _QE),
    "int32_max": ([{"id": 1, "name": "cat"}, {"id": 2**31 - 1, "name": "b"}], _QE),
    "1e12": ([{"id": 1, "name": "cat"}, {"id": 10**12, "name": "b"}], _QE),
    "20000": ([{"id": i, "name": f"c{i}"} for i in range(1, 20_001)], (OK,)),
    "1e6": ([{"id": i, "name": f"c{i}"} for i in range(1, 1_000_001)], EITHER),
    "html": ([{"id": 1, "name": "<script>alert(1)</script>"}], EITHER),
    "long": ([{"id": 1, "name": "n" * 100_000}], EITHER),
}


def _texts():
    good = json.dumps({"images": [], "annotations": [], "categories": [{"id": 1, "name": "cat"}]})
    return {
        "latin1": good.replace("cat", "caf\xe9").encode("latin-1"),
        "cut": good[: len(good) // 2],
        "empty": "",
        "null": "null",
        "list": "[]",
        "nan": "NaN",
        "brackets": "[" * 200_000,
        "braces": '{"a":' * 100_000,
        "behind": good + "x",
        "digits": good[:-1] + ', "x": ' + "9" * 5000 + "}",
        "gzip": gzip.compress(good.encode(), mtime=0),
        "html": "<html>login</html>",
    }


def _built(place=None, **parts):
    return using(_write, place, **parts)


def _write(folder, place, **parts):
    """Write a data set, and something that is no file where one of its files is looked for."""
    coco(folder, **parts)
    if place:
        kind, path = place[0], folder / place[1]
        path.unlink(missing_ok=True)
        targets = {"device": "/dev/zero", "loop": path.name, "environment": "/proc/self/environ"}
        makers = {"pipe": os.mkfifo, "folder": os.mkdir}
        makers.get(kind, lambda here: os.symlink(targets[kind], here))(path)


def _tables():
    built = functools.partial(_built, files={"x.jpg": jpeg()})
    for name, box in _BOXES.items():
        yield f"box_{name}", built(images=[_IMAGE], annotations=[{**_BOX, "bbox": box}]), _Q
    for name, (entry, expect) in _ANNOTATIONS.items():
        yield f"annotation_{name}", built(images=[_IMAGE], annotations=[entry]), expect
    for name, value in _IDS.items():
        entries = {"images": [{**_IMAGE, "id": value}], "annotations": [{**_BOX, "image_id": value}]}
        yield f"id_{name}", built(**entries), _QO
    for name, value in _SIZES.items():
        yield f"width_{name}", built(images=[{**_IMAGE, "width": value}], annotations=[_BOX]), _QO
    for name, value in _NAMES.items():
        yield f"name_{name}", built(images=[{**_IMAGE, "file_name": value}], annotations=[_BOX]), _Q
    for number, name in enumerate(_GOOD_NAMES):
        renamed = [{**_IMAGE, "file_name": name}]
        yield f"good_name_{number}", _built(files={name: jpeg()}, images=renamed, annotations=[_BOX]), (OK,)
    for number, name in enumerate(_NAMES_ELSEWHERE):  # the image is found by the tail of its name
        renamed = [{**_IMAGE, "file_name": name}]
        yield f"name_elsewhere_{number}", built(images=renamed, annotations=[_BOX]), (OK,)
    for name, (value, expect) in _VERIFIED.items():
        verified = [{**_IMAGE, "neg_category_ids": value}]
        yield f"verified_{name}", built(images=verified, annotations=[_BOX]), expect
    address = {"coco_url": "http://127.0.0.1:9/../../../etc/passwd"}
    nameless = {key: value for key, value in _IMAGE.items() if key != "file_name"} | address
    yield "address_outside", built(images=[nameless], annotations=[_BOX]), _Q
    for name, entry in {"null": None, "text": "x", "nothing": {}}.items():
        yield f"image_{name}", built(images=[entry]), _Q
    yield "same_image_id", built(images=[_IMAGE, {**_IMAGE, "file_name": "g0.jpg"}]), _Q
    polygon = {**_BOX, "segmentation": [[1, 1, 9, 1, 9, 9]]}
    yield "null_before_polygon", built(images=[_IMAGE], annotations=[None, polygon]), _Q


def _whole_files():
    built = functools.partial(_built, files={"x.jpg": jpeg()})
    for kind in ("pipe", "folder", "device", "loop", "environment"):
        yield f"image_is_{kind}", built((kind, "images/x.jpg"), images=[_IMAGE], annotations=[_BOX]), _Q
        yield f"annotations_are_{kind}", built((kind, "a.json")), (ERROR,)
    for name, (categories, expect) in _CATEGORIES.items():
        yield f"categories_{name}", built(categories=categories), expect
    for name, text in _texts().items():
        yield f"text_{name}", built(raw=text), (ERROR,)


def _only_null_is_refused(folder, out, text):
    """A null among annotations costs nothing but itself."""
    notes = (out / "examples/quarantine.jsonl").read_text().splitlines()
    return "" if len(notes) == 1 else f"{len(notes)} RECORDS IN QUARANTINE"


def _many(folder, chance):
    """Write a million annotations of one image."""
    entry = json.dumps({**_BOX, "image_id": 1})
    head = '{"images": [{"id": 1, "file_name": "x.jpg"}], "categories": [{"id": 1, "name": "cat"}]'
    text = head + ', "annotations": [' + ",".join([entry] * 1_000_000) + "]}"
    coco(folder, raw=text, files={"x.jpg": jpeg()})


def _sparse(folder, chance):
    coco(folder)
    os.truncate(folder / "a.json", 5 << 30)


def _coco_cases():
    """Yield data sets in COCO's format."""
    for name, build, expect in itertools.chain(_tables(), _whole_files()):
        check = _only_null_is_refused if name == "null_before_polygon" else None
        yield Case(f"coco/{name}", example_gen("coco"), build, expect, check=check)
    for name, build in {"annotations_1e6": _many, "sparse_5GB": _sparse}.items():
        yield Case(f"coco/{name}", example_gen("coco"), build, ANY)
        ratio = example_gen("coco", RATIO)
        yield Case(f"coco/{name}_by_ratio", ratio, build, ANY)
        init = detflow("init", "{in}", "-o", "{out}/w")
        yield Case(f"coco/{name}_init", init, build, EITHER)
    surrogate = _built(images=[{"id": "\ud800"}])
    yield Case("coco/surrogate_by_ratio", example_gen("coco", RATIO), surrogate, _QO)


_WRONG = {"nan": float("nan"), "infinite": float("-inf"), "1e308": 1e308, "digits": 10**4000}
_WRONG |= {"text": "x", "null": None, "bool": True, "list": [[1]], "map": {"a": {"b": 1}}}
_WRONG |= {"surrogate": "\ud800", "control": "\x1b[31m\0", "passwd": "../../../../etc/passwd"}
_WRONG |= {"long": "a" * 1_000_000}
_SHAPES = {
    "rect": {"x": 1, "y": 1, "width": 9, "height": 9},
    "polygon": {"all_points_x": [1, 9, 9], "all_points_y": [1, 1, 9]},
    "ellipse": {"cx": 20, "cy": 20, "rx": 5, "ry": 4, "theta": 0.5},
}
_RULES = {
    # Classes may be called so, and any angle is one.
    "createml/label_text": (OK,),
    "createml/label_passwd": (OK,),
    "createml/label_long": _QO,
    "via/class_text": (OK,),
    "via/class_passwd": (OK,),
    "via/class_long": _QO,
    "via/region_attributes_map": _QO,
    "via/regions_null": (OK,),
    "via/theta_1e308": (OK,),
    "via/theta_null": (OK,),
    **dict.fromkeys((f"via/size_{name}" for name in _WRONG), (OK,)),  # of the file, which nobody needs
}


def _createml(count=1):
    drawn = {"label": "cat", "coordinates": {"x": 20, "y": 20, "width": 9, "height": 9}}
    return [{"image": f"g{n}.jpg", "annotations": [drawn] * (count if n == 2 else 1)} for n in range(3)]


def _via(shape="rect", count=1, **place):
    kind = {"region_attributes": {"class": "cat"}}
    drawn = {"shape_attributes": {"name": shape, **_SHAPES[shape], **place}, **kind}
    plain = {"shape_attributes": {"name": "rect", **_SHAPES["rect"]}, **kind}
    return {
        f"g{n}": {"filename": f"g{n}.jpg", "size": 1, "regions": [drawn] * count if n == 2 else [plain]}
        for n in range(3)
    }


def _fields(tree, path=()):
    """Yield the way to every value of the last entry, the entry itself first."""
    if path:
        yield path
    if isinstance(tree, dict | list):
        items = list(tree.items() if isinstance(tree, dict) else enumerate(tree))
        for key, value in items if path else items[-1:]:
            yield from _fields(value, (*path, key))


def _changed(tree, path, value):
    whole = node = json.loads(json.dumps(tree))  # without parts in common
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = value
    return json.dumps(whole)


def _wrong_values():
    """Yield kind, name and text, a third of the values for each field."""
    trees = {"createml": [_createml()], "via": [_via(shape) for shape in _SHAPES]}
    for kind, variants in trees.items():
        seen = set()
        for tree in variants:
            for number, path in enumerate(_fields(tree)):
                field = "_".join(str(key) for key in path[-1:])
                if field in seen:
                    continue
                seen.add(field)
                for name, value in list(_WRONG.items())[number % 3 :: 3]:
                    yield kind, f"{field}_{name}", _changed(tree, path, value)


_HEAD = "filename,file_size,file_attributes,region_count,region_id,region_shape_attributes,"
_HEAD += "region_attributes\n"
_ROW = 'g{},1,{{}},1,0,"{{""name"":""rect"",""x"":1,""y"":1,""width"":9,""height"":9}}","{}"\n'
_CLASS = '{""class"":""cat""}'
_CELLS = {
    "good": _ROW.format("2.jpg", _CLASS),
    "no_json": _ROW.format("2.jpg", "cat"),
    "brackets": _ROW.format("2.jpg", "[" * 100_000),
    "digits": _ROW.format("2.jpg", "9" * 5000),
    "passwd": _ROW.format("/../../../../etc/passwd", _CLASS),
    "short": "g2.jpg,1\n",
    "open_quote": 'g2.jpg,1,{},1,0,"{\n' * 10,
    "cell_10MB": _ROW.format("2.jpg", "x" * 10_000_000),
}


def _file(name, text, size=0):
    return using(_write_beside, name, text, size)


def _write_beside(folder, name, text, size):
    good_images(folder)
    path = put(folder / name, text if isinstance(text, str) else text())
    if size:
        os.truncate(path, size)


def _many_shapes(kind):
    return json.dumps(_createml(1_000_000) if kind == "createml" else _via(count=200_000))


def _cases():
    for kind, name, text in _wrong_values():
        yield kind, name, _file("a.json", text), _RULES.get(f"{kind}/{name}", _Q)
    for kind, tree in {"createml": _createml(), "via": _via()}.items():
        text = json.dumps(tree)
        yield kind, "good", _file("a.json", text), (OK,)
        broken = {"cut": text[:-20], "behind": f"{text}x", "brackets": text[:-1] + ',"x":' + "[" * 200_000}
        for name, whole in broken.items():
            yield kind, f"text_{name}", _file("a.json", whole), ANY
        yield kind, "sparse_5GB", _file("a.json", text, 5 << 30), ANY
        yield kind, "many", _file("a.json", functools.partial(_many_shapes, kind)), ANY
    points = [1, 9] * 500_000
    long = functools.partial(lambda: json.dumps(_via("polygon", all_points_x=points, all_points_y=points)))
    yield "via", "points_1e6", _file("a.json", long), _QO
    good = _HEAD + "".join(_ROW.format(f"{n}.jpg", _CLASS) for n in range(2))
    for name, row in _CELLS.items():
        yield "via", f"csv_{name}", _file("a.csv", good + row), (OK,) if name == "good" else ANY
    rows = functools.partial(lambda: good + _ROW.format("2.jpg", _CLASS) * 1_000_000)
    yield "via", "csv_rows_1e6", _file("a.csv", rows), ANY


def _entry_cases():
    """Yield data sets of Create ML and VIA, read by ExampleGen; whole files are looked at by init, too."""
    init = detflow("init", "{in}", "-o", "{out}/w")
    for kind, name, build, expect in _cases():
        yield Case(f"{kind}/{name}", example_gen(kind), build, expect)
        if name.startswith(("text_", "sparse", "many", "points", "csv")):
            yield Case(f"{kind}/init_{name}", init, build, EITHER)


_TRUTH = {
    "images": {
        "id": 1,
        "width": 64,
        "height": 48,
        "neg_category_ids": [1],
        "not_exhaustive_category_ids": [1],
    },
    "categories": {"id": 1, "name": "cat", "frequency": "r"},
    "annotations": {**_BOX, "segmentation": [[1, 1, 6, 1, 6, 6]], "keypoints": [1, 1, 2]},
}
_RESULT = {"image_id": 1, "category_id": 1, "score": 0.5, "bbox": [1, 1, 5, 5], "keypoints": [1, 1, 2]}
_RESULT |= {"segmentation": {"size": [48, 64], "counts": [49, 5, 3018]}}


def _write_results(folder, field, value):
    """Write ground truth and results with a wrong value in the field `LIST.NAME`, or NAME of a result."""
    place, _, name = field.rpartition(".")
    truth = {key: [entry | ({name: value} if key == place else {})] for key, entry in _TRUTH.items()}
    put(folder / "truth.json", json.dumps(truth))
    put(folder / "results.json", json.dumps([_RESULT | ({} if place else {name: value})]))


def _results_cases():
    """Yield evaluations of results files without a detector."""
    words = ("--detections", "{in}/results.json", "--annotations", "{in}/truth.json", "--output", "{out}/e")
    fields = [f"{key}.{name}" for key, entry in _TRUTH.items() for name in entry]
    for field in (*fields, *_RESULT):
        for name in ("nan", "digits", "text", "null", "bool", "list", "map", "surrogate"):
            build = using(_write_results, field, _WRONG[name])
            yield Case(f"coco_results/{field}_{name}", detflow("evaluate", *words), build, EITHER)


def cases():
    """Yield data sets whose annotations are JSON, or CSV with JSON in it, and results."""
    yield from _coco_cases()
    yield from _entry_cases()
    yield from _results_cases()
