"""Settings, label maps, hparams, pipeline.config, packages: odd values, tags, bombs and mutants."""

import itertools
import json
import random
import re
from pathlib import Path

from tests.hostile.case import ANY, EITHER, ERROR, OK, REFUSED, Case, detflow, put, using
from tests.hostile.data_sets import coco, example_gen

DIGITS = Path(__file__).parents[2] / "examples/digits"
_CONFIG = (DIGITS / "pipeline.config").read_text()

BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n"
BOMB += "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]\n" for a, b in itertools.pairwise("abcdefghij"))
# Whatever reads YAML gets these.
YAML = {
    "empty": "",
    "list": "- a\n",
    "bomb": BOMB,
    "alias_itself": "name: &a [*a]\n",
    "brackets": "name: " + "[" * 20_000,
    "braces": "name: " + "{a: " * 20_000,
    "dashes": "- " * 20_000 + "x\n",
    "date": "name: 2026-13-45\n",
    "time_zone": "name: 2026-01-01T00:00:00+99:99\n",
    "sexagesimal": "name: " + "1:" * 5000 + "2\n",
    "digits": "name: " + "9" * 5000 + "\n",
    "hex": "name: 0x" + "f" * 100_000 + "\n",
    "float": "name: 1e999999\n",
    **{f"tag_{kind}": f'name: !!{kind} "abc"\n' for kind in ("bool", "int", "float")},
    "tag_time": 'name: !!timestamp "abc"\n',
    "tag_binary": 'name: !!binary "\u00e9"\n',
    "tag_set": "name: !!set {a, b}\n",
    "tag_omap": "name: !!omap [a: 1]\n",
    "tag_unknown": "name: !foo bar\n",
    "python_apply": 'name: !!python/object/apply:os.system ["touch {in}/PWNED"]\n',
    "python_name": "name: !!python/name:os.system\n",
    "python_tuple": "name: !!python/tuple [1, 2]\n",
    "key_list": "? [a, b]\n: 1\n",
    "key_null": "~: 1\n",
    "same_key": "name: a\nname: b\n",
    "merge": "x: &x {path: 1}\n<<: *x\n<<: [*x, *x]\n",
    "two_documents": "name: a\n---\nname: b\n",
    "tabs": "name:\n\t- x\n",
    "control": "name: \x07\n",
    "escape": 'name: "\\e]0;pwned\\a"\n',
    "surrogate": 'name: "\\ud800"\n',
    "null_character": b"name: a\0\n",
    "utf16": "name: a\n".encode("utf-16"),
    "latin1": "name: caf\xe9\n".encode("latin-1"),
    "binary": random.Random(6).randbytes(400),
    "comment_10MB": "#" + "x" * 10_000_000 + "\n",
    "scalar_10MB": "name: " + "x" * 10_000_000 + "\n",
    "indent_1e5": "".join(" " * i + "a:\n" for i in range(1500)),
}
_VALUES = {
    "null": "null",
    "int": "7",
    "negative": "-7",
    "infinite": ".inf",
    "nan": ".nan",
    "digits": "1" + "0" * 400,
    "text": "some text",
    "empty": '""',
    "true": "true",
    "list": "[1, {a: b}, null]",
    "map": "{a: {b: [c]}}",
    "map_int": "{1: 2, x: 3}",
    "date": "2026-01-01",
    "null_character": '"\\0"',
    "nested": "[[[]]]",
    "binary": "!!binary aGVsbG8=",
}
_KEYS = {
    "": "name workspace data model train evaluate quantize export push kubeflow schedule",
    "data": "path format splits span window label_map quarantine_limit shard_examples compression shards_uri",
    "model": "config override_files overrides",
    "train": "warm_start overrides weights_mirror",
    "evaluate": "split thresholds pictures",
    "quantize": "enabled overrides",
    "export": "formats max_map_drop max_detections",
    "push": "destination keep_versions",
    "beam": "args",
    "kubeflow": "image host connection defaults steps",
    "kubeflow.defaults": "cpu memory gpu pvcs env retries",
    "schedule": "cron interval start time_zone parameters",
}
_LABEL_MAPS = {
    "same_name": ('item{id:1 name:"cat"} item{id:2 name:"cat"}', (ERROR,)),
    "zero": ('item{id:0 name:"cat"}', (ERROR,)),
    "negative": ('item{id:-1 name:"cat"}', (ERROR,)),
    "int32_max": ('item{id:1 name:"cat"} item{id:2147483647 name:"b"}', (ERROR,)),
    "overflow": ('item{id:99999999999 name:"cat"}', (ERROR,)),
    "no_name": ("item{id:1}", (ERROR,)),
    "empty": ("", (ERROR,)),
    "not_closed": ('item{id:1 name:"cat"', (ERROR,)),
    "control": ('item{id:1 name:"cat" display_name:"\\033[31m\\000"}', EITHER),
    "bad_utf8": ('item{id:1 name:"\\377"}', (ERROR,)),
    "binary": (random.Random(5).randbytes(300), (ERROR,)),
    "any": ("[type.googleapis.com/x.Y]{a:1}", (ERROR,)),
    "nested": ("item{" * 5000 + "}" * 5000, (ERROR,)),
    "comment_20MB": ("#" + "x" * 20_000_000 + '\nitem{id:1 name:"cat"}', EITHER),
    "items_1e6": ("".join(f'item{{id:{i} name:"c{i}"}}' for i in range(1, 300_000)), ANY),
}
_PACKAGE = "pipelineInfo: {name: x}\nschemaVersion: 2.1.0\n"
_PACKAGES = {
    "info_list": "pipelineInfo: []\nschemaVersion: 2.1.0\n",
    "root_list": f"{_PACKAGE}root: []\n",
    "root_null": f"{_PACKAGE}root: null\n",
    "parameters_list": f"{_PACKAGE}root: {{inputDefinitions: {{parameters: [1]}}}}\n",
    "tasks_number": f"{_PACKAGE}root: {{dag: {{tasks: 5}}}}\n",
    "mixed_keys": "pipelineInfo: {name: x, 1: 2}\nschemaVersion: 2.1.0\nroot: {}\n",
    "version_list": "pipelineInfo: {name: x}\nschemaVersion: [2]\nroot: {}\n",
}


def settings_of(**changes):
    split = {"annotations": "a.json", "images": "images"}
    base = {"name": "t", "workspace": "w", "model": {"config": str(DIGITS / "pipeline.config")}}
    return {**base, "data": {"path": "data", "splits": {"train": split, "eval": split}}, **changes}


def _file(name, content, data=True):
    return using(_write, name, content, data)


def _write(folder, name, content, data):
    if data:
        coco(folder / "data")
    put(folder / name, content.replace("{in}", str(folder)) if isinstance(content, str) else content)


def _yaml_cases():
    """Yield the texts for each reader of YAML."""
    places = {
        "settings": ("s.yaml", detflow("validate", "{in}/s.yaml"), (ERROR,)),
        "schedule": ("s.yaml", detflow("schedule", "preview", "{in}/s.yaml"), (ERROR,)),
        "package": ("p.yaml", detflow("submit", "{in}/p.yaml", "--host", "http://127.0.0.1:9"), (ERROR,)),
        "hparams": ("h.yaml", _automl("{in}/h.yaml"), EITHER),
        "space": ("t.yaml", detflow("tune", f"{DIGITS}/settings.yaml", "--space", "{in}/t.yaml"), REFUSED),
    }
    for kind, (file, command, expect) in places.items():
        for name, content in YAML.items():
            yield Case(f"{kind}/{name}", command, _file(file, content, data=False), expect)
    for name, text in _PACKAGES.items():
        yield Case(f"package/{name}", places["package"][1], _file("p.yaml", text))


def _automl(hparams):
    return detflow("config", "from-automl", "--hparams", hparams, "-o", "{out}/p.config")


_VALIDATE = detflow("validate", "{in}/s.yaml")


def _setting_cases():
    keys = [f"{above}.{key}".removeprefix(".") for above, names in _KEYS.items() for key in names.split()]
    for number, key in enumerate(keys):
        # A third of the values for each key, others for the next.
        for name, value in list(_VALUES.items())[number % 3 :: 3]:
            tree = settings_of(schedule={"cron": "0 0 3 * * *"})
            *above, last = key.split(".")
            node = tree
            for part in above:
                node = node.setdefault(part, {})
            node[last] = "@VALUE@"
            text = json.dumps(tree).replace('"@VALUE@"', f"{value} ")
            yield Case(f"setting/{key}_{name}", _VALIDATE, _file("s.yaml", text), EITHER)
    literal = json.dumps(settings_of(workspace="${HOME}/$(touch {in}/PWNED)/`id`"))
    yield Case("setting/shell", _VALIDATE, _file("s.yaml", literal), EITHER)
    yield Case("setting/good", _VALIDATE, _file("s.yaml", json.dumps(settings_of())), (OK,))


_HPARAMS = {
    "brackets": "[" * 20_000,
    "call": "num_classes=__import__('os').system('touch PWNED')",
    "digits": "num_classes=" + "9" * 5000,
    "power": "num_classes=9**9**9",
    "nan": "learning_rate=nan",
    "huge": "image_size=1000000000x1000000000",
    "star": "image_size=" + "*" * 100_000,
    "same": "num_classes=1,num_classes=2",
    "null_character": "name=a\\0b",
    "nested": "nas_fpn_config." + "a." * 20_000 + "b=1",
}


def _config_cases():
    counts = {"negative_classes": -1, "classes_overflow": 99999999999, "classes_2e9": 2000000000}
    changed = {
        **{name: _CONFIG.replace("num_classes: 10", f"num_classes: {n}") for name, n in counts.items()},
        "nan": _CONFIG.replace("anchor_scale: 3.0", "anchor_scale: nan"),
        "two_models": _CONFIG + "\nmodel { faster_rcnn { } }",
        "braces": "model {" * 50_000,
        "brackets": "model { ssd { anchor_generator { multiscale_anchor_generator { aspect_ratios: "
        + "[" * 5000,
        "html": "<html>",
        "binary": random.Random(8).randbytes(2000),
        "cut": _CONFIG[: len(_CONFIG) // 2],
        "any": _CONFIG + '\n[type.googleapis.com/google.protobuf.Any] { type_url: "x" }',
        "text_10MB": _CONFIG.replace("ssd_mobilenet_v2_fpn_keras", "x" * 10_000_000),
        "escape": _CONFIG.replace("ssd_mobilenet_v2_fpn_keras", "\\033]0;pwned\\007"),
    }
    command, given = detflow("validate", "{in}/p.config"), detflow("validate", f"{DIGITS}/pipeline.config")
    for name, content in changed.items():
        yield Case(f"config/{name}", command, _file("p.config", content, data=False))
    comment = _file("p.config", "#" + "x" * 10_000_000 + "\n" + _CONFIG, data=False)
    yield Case("config/comment_10MB", command, comment, EITHER)
    for number in range(60):
        build = lambda folder, chance: put(folder / "p.config", _mutant(chance))  # noqa: E731
        yield Case(f"config/mutant_{number}", command, build, EITHER, megabytes=1500)
    for name, change in _SIZES.items():
        sets = (word for text in change.split() for word in ("--set", text))
        yield Case(f"config/size_{name}", (*given, *sets))
    for name in ("brackets", "digits", "tag_int", "bomb", "binary"):
        override = (*given, "--override-file", "{in}/o.config")
        yield Case(f"override/{name}", override, _file("o.config", YAML[name], data=False))


_SSD = "model.ssd"
_SIZES = {
    "classes_1e6": "num_classes=1000000",
    "resizer_20000": f"{_SSD}.image_resizer.fixed_shape_resizer.height=20000"
    f" {_SSD}.image_resizer.fixed_shape_resizer.width=20000",
    "batch_2e9": "batch_size=2000000000",
    "scales_1e7": f"{_SSD}.anchor_generator.multiscale_anchor_generator.scales_per_octave=10000000",
    "level_60": f"{_SSD}.anchor_generator.multiscale_anchor_generator.max_level=60"
    f" {_SSD}.feature_extractor.fpn.max_level=60",
    "depth_1e6": f"{_SSD}.box_predictor.weight_shared_convolutional_box_predictor.depth=1000000",
    "shuffle_4e9": "train_input_reader.shuffle_buffer_size=4000000000",
    "boxes_2e9": "train_config.max_number_of_boxes=2000000000",
}
_TOKENS = re.findall(r"\s+|[A-Za-z0-9_.+-]+|.", _CONFIG)
_SOLID = [i for i, token in enumerate(_TOKENS) if token.strip()]
_PUNCTUATION = ("{", "}", ":", "[", "]", "'", '"', "#", "\\", "\0", "\u00e9")
_NUMBERS = ("-1", "0", "1e40", "nan", "inf", "9" * 20, "true", "''", "0x10", "1e-50")


def _mutant(chance):
    """Return the example's configuration with one to three of its words changed."""
    tokens = list(_TOKENS)
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.choice(_SOLID)
        word = tokens[at]
        others = ("", f"{word} {word}", chance.choice(_PUNCTUATION), chance.choice(_NUMBERS))
        tokens[at] = chance.choice((*others, _TOKENS[chance.choice(_SOLID)], word[::-1]))
    return "".join(tokens)


def cases():
    """Yield texts for every verb and step that reads one."""
    yield from _yaml_cases()
    for name, text in _HPARAMS.items():
        yield Case(f"hparams/text_{name}", _automl(text), expect=EITHER)
    yield from _config_cases()
    for name, (content, expect) in _LABEL_MAPS.items():
        command = example_gen("coco", data_path="{in}/data", label_map="{in}/m.pbtxt")
        yield Case(f"label_map/{name}", command, _file("m.pbtxt", content), expect)
    for name, place in {"folder": "{in}", "missing": "{in}/none", "device": "/dev/zero"}.items():
        command = example_gen("coco", data_path="{in}/data", label_map=place)
        yield Case(f"label_map/{name}", command, _file("x", ""))
    yield from _setting_cases()
