"""Create ML and VIA: wrong values in every field, and files that are too much."""

import functools
import json
import os

from tests.hostile.case import ANY, EITHER, OK, QUARANTINE, Case, detflow, put, using
from tests.hostile.data_sets import example_gen, good_images

_Q, _QO = (QUARANTINE,), (QUARANTINE, OK)
_WRONG = {
    "nan": float("nan"),
    "infinite": float("-inf"),
    "1e308": 1e308,
    "digits": 10**4000,
    "text": "x",
    "null": None,
    "bool": True,
    "list": [[1]],
    "map": {"a": {"b": 1}},
    "surrogate": "\ud800",
    "control": "\x1b[31m\0",
    "passwd": "../../../../etc/passwd",
    "long": "a" * 1_000_000,
}
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


_HEAD = (
    "filename,file_size,file_attributes,region_count,region_id,region_shape_attributes,region_attributes\n"
)
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
    return using(_write, name, text, size)


def _write(folder, name, text, size):
    good_images(folder)
    path = put(folder / name, text if isinstance(text, str) else text())
    if size:
        os.truncate(path, size)


def _many(kind):
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
        yield kind, "many", _file("a.json", functools.partial(_many, kind)), ANY
    points = [1, 9] * 500_000
    long = functools.partial(lambda: json.dumps(_via("polygon", all_points_x=points, all_points_y=points)))
    yield "via", "points_1e6", _file("a.json", long), _QO
    good = _HEAD + "".join(_ROW.format(f"{n}.jpg", _CLASS) for n in range(2))
    for name, row in _CELLS.items():
        yield "via", f"csv_{name}", _file("a.csv", good + row), (OK,) if name == "good" else ANY
    rows = functools.partial(lambda: good + _ROW.format("2.jpg", _CLASS) * 1_000_000)
    yield "via", "csv_rows_1e6", _file("a.csv", rows), ANY


def cases():
    """Yield data sets of Create ML and VIA, read by ExampleGen; whole files are looked at by init, too."""
    init = detflow("init", "{in}", "-o", "{out}/w")
    for kind, name, build, expect in _cases():
        yield Case(f"{kind}/{name}", example_gen(kind), build, expect)
        if name.startswith(("text_", "sparse", "many", "points", "csv")):
            yield Case(f"{kind}/init_{name}", init, build, EITHER)
