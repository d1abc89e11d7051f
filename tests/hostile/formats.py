"""Data sets of Pascal VOC, YOLO, LabelMe, Label Studio, CVAT, CSV, Open Images, Darknet and TFRecords."""

import base64
import gzip
import io
import itertools
import json
import os
import struct

from PIL import Image

from detection_core.data.record_format import write_record
from tests.hostile.case import ANY, EITHER, OK, QUARANTINE, Case, detflow, put, using
from tests.hostile.data_sets import example_gen, good_images, labelme, voc, voc_xml, yolo
from tests.hostile.images import jpeg
from tests.hostile.texts import BOMB

_Q = (QUARANTINE,)
_ENTITY = '<!DOCTYPE a [<!ENTITY x SYSTEM "{}">]>'
_LAUGHS = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 10))
_BOX = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
_OBJECT = f"<object><name>cat</name>{_BOX}</object>"
_CVAT_IMAGE = '<annotations><image id="0" name="g0.jpg" width="{}" height="48">{}</image></annotations>'


def _voc():
    good = voc_xml()
    return {
        "laughs": (voc_xml("&a9;", head=f'<!DOCTYPE a [<!ENTITY a0 "ha">{_LAUGHS}]>'), _Q),
        "entity_file": (voc_xml("&x;", head=_ENTITY.format("file:///etc/passwd")), _Q),
        "entity_http": (voc_xml("&x;", head=_ENTITY.format("http://127.0.0.1:9/x")), _Q),
        "empty": ("", _Q),
        "not_closed": (good[:-5], _Q),
        "bad_utf8": (good.encode().replace(b"cat", b"c\xff\xfet"), _Q),
        "unknown_encoding": ('<?xml version="1.0" encoding="klingon"?>' + good, _Q),
        "no_box": (good.replace("bndbox", "bbox"), _Q),
        "box_nan": (voc_xml(box=("nan", 1, 20, 20)), _Q),
        "box_text": (voc_xml(box=("a", 1, 2, 3)), _Q),
        "box_reversed": (voc_xml(box=(20, 20, 1, 1)), _Q),
        "box_1e300": (voc_xml(box=(1, 1, "1e300", 20)), _Q),
        "box_5000_digits": (voc_xml(box=(1, 1, "9" * 5000, 20)), _Q),
        "size_nan": (voc_xml(size=("nan", 48)), _Q),
        "size_digits": (voc_xml(size=("9" * 5000, 48)), _Q),
        "name_newline": (voc_xml("a\nb"), _Q),
        "difficult_text": (voc_xml(more="<difficult>yes</difficult>"), _Q),
        "name_200k": (voc_xml("n" * 200_000), (QUARANTINE, OK)),
        "nested_1e6": ("<annotation>" + "<a>" * 1_000_000 + "</a>" * 1_000_000 + "</annotation>", ANY),
        "objects_200k": ("<annotation><filename>x.jpg</filename>" + _OBJECT * 200_000 + "</annotation>", ANY),
        "attribute_20MB": (f'<annotation a="{"x" * 20_000_000}"/>', ANY),
        "utf16": (good.encode("utf-16"), ANY),
        "namespace": (good.replace("<annotation>", '<annotation xmlns="urn:x">'), ANY),
    }


YOLO_DATA = {
    "nc_1e9": "nc: 1000000000\ntrain: images/train\nval: images/train\n",
    "nc_5e7": "nc: 50000000\ntrain: images/train\nval: images/train\n",
    "kpt_5e7": "train: images/train\nnames: [cat]\nkpt_shape: [50000000, 3]\n",
    "nc_5000_digits": f"nc: {'9' * 5000}\ntrain: images/train\n",
    "nc_negative": "nc: -1\ntrain: images/train\nnames: [cat]\n",
    "nc_nan": "nc: .nan\ntrain: images/train\nnames: [cat]\n",
    "kpt_1e9": "train: images/train\nnames: [cat]\nkpt_shape: [1000000000, 3]\n",
    "kpt_flip": "train: images/train\nnames: [cat]\nkpt_shape: [17, 3]\nflip_idx: [1000000000]\n",
    "names_key_1e9": "train: images/train\nnames: {1000000000: cat}\n",
    "names_null": "train: images/train\nnames: [null, 5, [a]]\n",
    "train_20000_parts": "train: " + "a/" * 20_000 + "x\nnames: [cat]\n",
    "train_dots": "train: " + "../" * 20_000 + "x\nnames: [cat]\n",
    "train_list_1e5": "train: [" + ", ".join(["images/train"] * 100_000) + "]\nnames: [cat]\n",
    "train_null_character": 'train: "a\\0b"\nnames: [cat]\n',
    "train_device": "train: /dev/zero\nnames: [cat]\n",
    "train_itself": "train: data.yaml\nnames: [cat]\n",
    "path_control": 'path: "\\e[31m"\ntrain: images/train\nnames: [cat]\n',
    "tag_bool": "train: images/train\nnames: !!bool maybe\n",
    "tag_int": "train: images/train\nnc: !!int abc\nnames: [cat]\n",
    "tag_time": "train: !!timestamp abc\nnames: [cat]\n",
    "tag_python": 'train: !!python/object/apply:os.system ["touch PWNED"]\nnames: [cat]\n',
    "date": "train: images/train\nnames: [2026-13-45]\n",
    "brackets": "train: " + "[" * 20_000 + "\n",
    "aliases": BOMB + "train: images/train\nnames: *j\n",
    "same_key": "train: images/train\nnames: [cat]\nnames: [dog]\n",
    "list": "[1, 2]\n",
    "binary": b"\xff\xfe\x00\x01",
}
_YOLO_LABELS = {
    "nan": ("0 nan 0.5 0.2 0.2\n", _Q),
    "class_1e18": ("1000000000000000000 0.5 0.5 0.2 0.2\n", _Q),
    "class_5000_digits": ("9" * 5000 + " 0.5 0.5 0.2 0.2\n", _Q),
    "class_half": ("0.5 0.5 0.5 0.2 0.2\n", _Q),
    "words": ("a b c d e\n", _Q),
    "binary": (b"\xff\xfe\x00", _Q),
    "one_line_20MB": ("0 " + "0.5 " * 5_000_000, ANY),
    "lines_1e6": ("0 0.5 0.5 0.2 0.2\n" * 1_000_000, ANY),
}


_HUGE = "a mask of 50,000 x 50,000 pixels"


def _huge_mask():
    """Return a PNG of one bit a pixel, as LabelMe's masks are."""
    buffer = io.BytesIO()
    Image.new("1", (50_000, 50_000), 1).save(buffer, "PNG")
    return base64.b64encode(buffer.getvalue()).decode()


def _labelme():
    def shapes(**changes):
        shape = {"label": "cat", "points": [[1, 1], [20, 20]], "shape_type": "rectangle"}
        return {"shapes": [{**shape, **changes}]}

    return {
        "mask_50000": (shapes(shape_type="mask", mask=_HUGE), _Q),
        "mask_garbage": (shapes(shape_type="mask", mask="!!!"), _Q),
        "points_nan": (shapes(points=[[float("nan"), 1], [2, 2]]), _Q),
        "points_text": (shapes(points="x"), _Q),
        "points_1e6": (shapes(shape_type="polygon", points=[[1, 1]] * 1_000_000), ANY),
        "circle_1e300": (shapes(shape_type="circle", points=[[1e300, 1], [2, 1e300]]), ANY),
        "label_null": (shapes(label=None), _Q),
        "label_long": (shapes(label="x" * 1_000_000), ANY),
        "shapes_map": ({"shapes": {"a": 1}}, _Q),
        "path_passwd": ({"imagePath": "../../../../etc/passwd", "file": "h"}, _Q),
        "path_passwd_beside": ({"imagePath": "../../../../etc/passwd"}, (OK,)),
        "path_null_character": ({"imagePath": "a\0.jpg"}, _Q),
        "data_garbage": ({"imagePath": "none.jpg", "imageData": "!!!"}, ANY),
        "height_nan": ({"imageHeight": float("nan")}, ANY),
        "list": ({"raw": "[]"}, ANY),
        "brackets": ({"raw": "[" * 100_000}, ANY),
    }


def _studio(url, value=None):
    result = value or {"x": 1, "y": 1, "width": 20, "height": 20, "rotation": 0, "rectanglelabels": ["cat"]}
    found = {"type": "rectanglelabels", "original_width": 64, "original_height": 48, "value": result}
    images = {0: "g0.jpg", 1: "g1.jpg", 9: url}
    done = {"annotations": [{"result": [found]}]}
    return json.dumps([{"id": number, "data": {"image": image}, **done} for number, image in images.items()])


def _labelme_files(folder, **fields):
    for shape in fields.get("shapes", ()):
        if isinstance(shape, dict) and shape.get("mask") == _HUGE:
            shape["mask"] = _huge_mask()
    labelme(folder, **fields)


_STUDIO = {
    "bracket": _studio("http://[::1/a.jpg"),
    "port": _studio("http://h:99999999/a.jpg"),
    "percent": _studio("/data/upload/%zz%00.jpg"),
    "passwd": _studio("/data/local-files/?d=../../../../etc/passwd"),
    "scheme": _studio("javascript:alert(1)"),
    "null": _studio(None),
    "list": _studio(["a"]),
    "surrogate": _studio("\ud800.jpg"),
    "value_text": _studio("g2.jpg", {"x": "a", "y": None, "width": [], "height": {}, "rectanglelabels": 5}),
    "brush": _studio("g2.jpg", {"format": "rle", "rle": [255] * 1000, "brushlabels": ["cat"]}),
    "brackets": "[" * 100_000,
}
_CSV = {
    "nan": "g2.jpg,nan,1,20,20,cat\n",
    "digits": "g2.jpg," + "9" * 5000 + ",1,20,20,cat\n",
    "words": "g2.jpg,a,b,c,d,cat\n",
    "short": "g2.jpg\n",
    "quote": '"g2.jpg,1,1,20,20,cat\n',
    "field_10MB": "g2.jpg,1,1,20,20," + "x" * 10_000_000 + "\n",
    "null_character": "g2\0.jpg,1,1,20,20,cat\n",
    "latin1": "caf\xe9.jpg,1,1,20,20,cat\n".encode("latin-1"),
    "formula": "g2.jpg,1,1,20,20,=cmd|'/c calc'!A1\n",
    "passwd": "/etc/passwd,1,1,20,20,cat\n",
}
_CVAT_MASK = '<mask label="cat" rle="9999999999" left="0" top="0" width="100000" height="100000"/>'
_CVAT = {
    "laughs": f'<!DOCTYPE a [<!ENTITY a0 "ha">{_LAUGHS}]><annotations><meta>&a9;</meta></annotations>',
    "entity": _ENTITY.format("file:///etc/passwd") + "<annotations>&x;</annotations>",
    "nan": _CVAT_IMAGE.format(64, '<box label="cat" xtl="nan" ytl="1" xbr="9" ybr="9"/>'),
    "size_digits": _CVAT_IMAGE.format("9" * 5000, ""),
    "mask_rle": _CVAT_IMAGE.format(64, _CVAT_MASK),
    "nested": "<annotations>" + "<image>" * 200_000,
    "empty": "",
}


def _single(folder, name, content):
    """Write three images and one file of annotations beside them."""
    good_images(folder / "images")
    good_images(folder)
    put(folder / name, content)


def _pipe(folder, name):
    voc(folder, voc_xml())
    os.mkfifo(folder / name)


def _yolo_file(folder, name, text):
    """Write YOLO labels whose images are named by a list."""
    yolo(folder, f"train: {name}\nnames: [cat]\n")
    put(folder / name, text)


def _darknet(folder):
    """Write Darknet files that name themselves."""
    yolo(folder)
    (folder / "data.yaml").unlink()
    put(folder / "obj.data", "classes = 1\ntrain = obj.data\nvalid = obj.data\nnames = obj.data\n")


def _record(content):
    buffer = io.BytesIO()
    write_record(buffer, content)
    return buffer.getvalue()


def _example(**changes):
    from tensorflow.core.example import example_pb2

    example = example_pb2.Example()
    features = {"image/encoded": [jpeg()], "image/source_id": [b"1"]}
    sides = {"xmin": 0.1, "ymin": 0.1, "xmax": 0.5, "ymax": 0.5}
    features |= {f"image/object/bbox/{side}": [value] for side, value in sides.items()}
    features |= {"image/object/class/label": [1], "image/object/class/text": [b"cat"]}
    features |= {f"image/{name.replace('__', '/')}": value for name, value in changes.items()}
    for name, values in features.items():
        feature = example.features.feature[name]
        lists = {bytes: feature.bytes_list, int: feature.int64_list, float: feature.float_list}
        lists[type(values[0])].value.extend(values)
    return example.SerializeToString()


def _with_example(**changes):
    """Return a good record and one with other features."""
    return _record(_example()) + _record(_example(**changes))


_RECORDS = {
    "good": lambda: _with_example(source_id=[b"2"]),
    "label_nan": lambda: _with_example(object__class__label=[float("nan")]),
    "label_1e30": lambda: _with_example(object__class__label=[1e30]),
    "label_int64": lambda: _with_example(object__class__label=[2**62]),
    "box_nan": lambda: _with_example(object__bbox__xmin=[float("nan")]),
    "box_more": lambda: _with_example(object__bbox__xmin=[0.1, 0.2]),
    "text_binary": lambda: _with_example(object__class__text=[b"\xff\xfe"]),
    "no_example": lambda: _record(_example()) + _record(b"\xff" * 50),
    "cut": lambda: _with_example()[:-50],
    "length_2e63": lambda: _record(_example()) + struct.pack("<Q", 2**63) + bytes(20),
    "gzip": lambda: gzip.compress(_with_example(), mtime=0),
    "gzip_bomb": lambda: gzip.compress(_record(bytes(300_000_000)), mtime=0),
    "zeros": lambda: bytes(1_000_000),
}


def _record_files(folder, content):
    put(folder / "train.tfrecord", content())
    put(folder / "label_map.pbtxt", 'item { id: 1 name: "cat" }\n')


def _voc_tables():
    for name, (xml, expect) in _voc().items():
        yield "voc", name, using(voc, xml), expect
    for name in (b"\xff\xfe.xml", b"a\nb.xml"):
        yield "voc", f"name_{name.hex()}", using(voc, voc_xml(file="g0.jpg"), os.fsdecode(name)), ANY
    for name, file in {"passwd": "../../../../etc/passwd", "url": "http://127.0.0.1:9/none.jpg"}.items():
        # The image that has the name of the annotation file is taken, where there is one, and no other.
        yield "voc", f"file_{name}", using(voc, voc_xml(file=file), "y.xml"), _Q
        yield "voc", f"file_{name}_beside", using(voc, voc_xml(file=file)), (OK,)
    yield "voc", "pipe", using(_pipe, "Annotations/p.xml"), _Q


def _yolo_tables():
    for name, text in YOLO_DATA.items():
        yield "yolo", name, using(yolo, text), ANY
    for name, (labels, expect) in _YOLO_LABELS.items():
        yield "yolo", f"labels_{name}", using(yolo, labels=labels), expect
    lists = {"itself": "list.txt\n" * 1000, "control": "\x1b[2J\n", "device": "/dev/zero\n"}
    for name, text in lists.items():
        yield "yolo", f"list_{name}", using(_yolo_file, "list.txt", text), ANY
    yield "yolo", "darknet_itself", using(_darknet), ANY


def _other_tables():
    for name, (fields, expect) in _labelme().items():
        yield "labelme", name, using(_labelme_files, **fields), expect
    for name, text in _STUDIO.items():
        yield "label_studio", name, using(_single, "export.json", text), ANY
    head = "filename,xmin,ymin,xmax,ymax,class\ng0.jpg,1,1,20,20,cat\ng1.jpg,1,1,20,20,cat\n"
    for name, row in _CSV.items():
        content = head.encode() + (row if isinstance(row, bytes) else row.encode())
        yield "csv", name, using(_single, "annotations.csv", content), ANY
    for name, text in _CVAT.items():
        yield "cvat", name, using(_single, "annotations.xml", text), ANY
    head = "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax"
    head += ",IsOccluded,IsTruncated,IsGroupOf,IsDepiction,IsInside\n"
    good = "g0,xclick,/m/01yrx,1,0.1,0.5,0.1,0.5,0,0,0,0,0\n"
    rows = {"nan": good.replace("0.5", "nan"), "words": "a,b\n", "digits": good.replace("0.5", "9" * 5000)}
    for name, row in rows.items():
        yield "open_images", name, using(_single, "train-annotations-bbox.csv", head + good + row), ANY
    for name, content in _RECORDS.items():
        yield "tfrecord", name, using(_record_files, content), (OK,) if name == "good" else ANY


def _sparse(folder, kind, name):
    {"voc": lambda f: voc(f, voc_xml()), "yolo": yolo, "labelme": labelme}.get(kind, good_images)(folder)
    os.truncate(put(folder / name, "{"), 5 << 30)


_LARGE = {"voc": "Annotations/x.xml", "yolo": "data.yaml", "labelme": "g1.json"}
_LARGE |= {"label_studio": "export.json", "csv": "annotations.csv", "cvat": "annotations.xml"}
_LARGE |= {"tfrecord": "train.tfrecord"}


def cases():
    """Yield data sets of every format but COCO's, read by ExampleGen, and some looked at by init."""
    init = detflow("init", "{in}", "-o", "{out}/w")
    for kind, name, build, expect in itertools.chain(_voc_tables(), _yolo_tables(), _other_tables()):
        yield Case(f"{kind}/{name}", example_gen(kind), build, expect)
        if kind in ("yolo", "labelme", "label_studio"):
            yield Case(f"{kind}/init_{name}", init, build, EITHER)
    for kind, name in _LARGE.items():
        build = using(_sparse, kind, name)
        yield Case(f"{kind}/sparse_5GB", example_gen(kind), build, ANY)
        yield Case(f"{kind}/auto_sparse_5GB", example_gen("auto"), build, ANY)
