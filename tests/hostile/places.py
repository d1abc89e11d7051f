"""Odd paths, push destinations and workspaces that were damaged, and arguments that make no sense."""

import json
import os
import shutil

from tests.hostile.case import EITHER, ERROR, OK, REFUSED, Case, detflow, put, step, using
from tests.hostile.data_sets import coco, example_gen
from tests.hostile.images import jpeg
from tests.hostile.texts import DIGITS

_ODD = {
    "space": "a b",
    "quotes": "a'b\"c",
    "unicode": "\u00e9\U0001f600",
    "percent": "100%s%d",
    "braces": "{x}",
    "shell": "$HOME`id`;id&",
    "star": "a*b?c",
    "bracket": "a[x]b",
    "newline": "a\nb",
    "escape": "a\x1b[31mb",
    "dash": "-rf",
    "tilde": "~root",
    "blank_end": "a ",
    "hidden": ".hid",
    "at": "a@b",
    "equals": "a=b,c:d",
    "backslash": "a\\b",
    "long": "n" * 200,
    "bytes": "a\udcff\udcfeb",
}
_SPLITS = '{"train": {"annotations": "a.json", "images": "images"}}'


def _odd_paths():
    def write(folder, odd):
        coco(folder / "plain")
        coco(folder / "odd" / odd, count=12)

    for name, odd in _ODD.items():
        build = using(write, odd)
        command = example_gen("coco", data_path="{in}/plain", examples=f"{{out}}/{odd}/examples")
        yield Case(f"places/examples_{name}", command, build, (OK,))
        command = example_gen("coco", data_path=f"{{in}}/odd/{odd}")
        yield Case(f"places/data_{name}", command, build, (OK,))
        command = detflow("init", f"{{in}}/odd/{odd}", "-o", f"{{out}}/{odd}")
        expect = (ERROR,) if name in ("newline", "escape", "bytes") else (OK,)  # no settings can hold them
        yield Case(f"places/init_{name}", command, build, expect)
        fields = {"data_path": f"{{in}}/odd/{odd}", "splits": _SPLITS, "push_destination": f"{{out}}/{odd}"}
        yield Case(f"places/checker_{name}", step("run_checker", **fields), build, (OK,))


_LAST, _FIRST = 1790000002, 1790000001


def _destination(folder, change=lambda root: None):
    """Write a push destination with two versions, and change it."""
    for number in (_FIRST, _LAST):
        model = folder / "d/saved_model" / str(number)
        put(model / "saved_model.pb", "x")
        put(model / "variables/v", str(number))
        sizes = {"saved_model.pb": 1, "variables/v": len(str(number))}
        record = {"number": number, "run_key": f"r{number}", "fingerprint": "f", "files": sizes}
        put(folder / f"d/versions/{number}.json", json.dumps(record))
    put(folder / "d/current.json", json.dumps({"version": _LAST, "rolled_back": []}))
    put(folder / "victim", "precious")
    put(folder / "a.jpg", jpeg())
    change(folder / "d")


_POINTERS = {
    "empty": "",
    "cut": '{"version": 17',
    "list": "[]",
    "text": '{"version": "abc", "rolled_back": []}',
    "half": '{"version": 1.5, "rolled_back": []}',
    "dotdot": '{"version": "../../../x", "rolled_back": ["../../y"]}',
    "digits": '{"version": ' + "9" * 5000 + ', "rolled_back": []}',
    "brackets": "[" * 100_000,
    "rolled_back_null": '{"version": 5, "rolled_back": null}',
    "binary": b"\xff\xfe\x00",
}
_RECORDS = {
    "empty": "",
    "list": "[]",
    "more": '{"number": 1, "colour": 2}',
    "path": '{"number": "../../../../tmp/x"}',
    "binary": b"\xff\xfe",
}


def _link_lock(root):
    (root / ".lock").symlink_to(root.parent / "victim")


def _pipe(root):
    (root / "current.json").unlink()
    os.mkfifo(root / "current.json")


def _device(root):
    (root / "current.json").unlink()
    (root / "current.json").symlink_to("/dev/zero")


def _file_for_versions(root):
    shutil.rmtree(root / "versions")
    put(root / "versions", "x")


def _precious(folder, out, text):
    return "" if (folder / "victim").read_text() == "precious" else "OVERWRITTEN"


_CHANGES = {
    "good": (lambda root: None, (OK,)),
    "versions_are_file": (_file_for_versions, (ERROR,)),
    "superscript": (lambda root: put(root / "versions/\u00b2.json", "{}"), EITHER),
    "lock_is_folder": (lambda root: (root / ".lock").mkdir(), (ERROR,)),
    "lock_is_link": (_link_lock, EITHER),
    "pointer_is_pipe": (_pipe, (ERROR,)),
    "pointer_is_device": (_device, (ERROR,)),
    "no_models": (lambda root: shutil.rmtree(root / "saved_model"), (ERROR,)),
}


def _destinations():
    changes = dict(_CHANGES)
    predict = detflow("predict", "--model", "{in}/d", "{in}/a.jpg", "--output", "{out}/p")
    for name, text in _POINTERS.items():
        changes[f"pointer_{name}"] = (lambda root, t=text: put(root / "current.json", t), (ERROR,))
    for name, text in _RECORDS.items():
        changes[f"record_{name}"] = (lambda root, t=text: put(root / f"versions/{_FIRST}.json", t), EITHER)
    for name, (change, expect) in changes.items():
        build = using(_destination, change)
        yield Case(f"destination/{name}", detflow("rollback", "{in}/d"), build, expect, check=_precious)
        yield Case(f"destination/model_{name}", predict, build, check=_precious)  # no model is whole
    for name, to in {"missing": "12345", "negative": "-5", "digits": "9" * 5000}.items():
        command = detflow("rollback", "{in}/d", "--to", to)
        yield Case(f"destination/to_{name}", command, using(_destination), REFUSED)


_RUN = {"run_id": "r1", "pipeline_name": "t", "settings_text": "x", "workspace": "w", "status": "succeeded"}
_RUN |= {"started": "2026-01-01T00:00:00+00:00", "finished": "2026-01-01T00:01:00+00:00", "steps": []}
_EVALUATOR = {"id": "evaluator", "component": "evaluator", "state": "executed"}
_RUNS = {
    "empty": "",
    "list": "[]",
    "nothing": "{}",
    "brackets": "[" * 100_000,
    "digits": json.dumps(_RUN).replace('"steps": []', '"steps": [' + "9" * 5000 + "]"),
    "status": json.dumps({**_RUN, "status": "exploded"}),
    "steps_text": json.dumps({**_RUN, "steps": "abc"}),
    "types": json.dumps({**_RUN, "started": 5, "pipeline_name": None}),
    "dotdot": json.dumps({**_RUN, "run_id": "../../../escaped"}),
    "control": json.dumps({**_RUN, "pipeline_name": "\x1b]0;pwned\x07"}),
    "outputs_text": json.dumps({**_RUN, "steps": [_EVALUATOR | {"outputs": "text"}]}),
    "output_passwd": json.dumps({**_RUN, "steps": [_EVALUATOR | {"outputs": {"evaluation": "/etc/passwd"}}]}),
}


def _write_run(folder, text):
    put(folder / "runs/r1/run.json", text)
    put(folder / "f", "x")


def _workspaces():
    for name, text in _RUNS.items():
        for verb in (("runs", "list"), ("report",)):
            command = detflow(*verb, "{in}")
            yield Case(f"workspace/{verb[0]}_{name}", command, using(_write_run, text), EITHER)
    pages = {"folder": "{out}", "full": "/dev/full", "proc": "/proc/x/r.html", "below": "{in}/f/r"}
    for name, path in pages.items():
        command = detflow("report", "{in}", "--output", path)
        yield Case(f"workspace/output_{name}", command, using(_write_run, json.dumps(_RUN)))


_HOST = "http://127.0.0.1:9"
_ARGUMENTS = {
    "nothing": (),
    "verb": ("explode",),
    "verb_escape": ("\x1b[31m",),
    "set": ("validate", "x.yaml", "--set", "abc"),
    "set_brackets": ("validate", "{in}/x.yaml", "--set", "a=" + "[" * 20_000),
    "missing": ("validate", "/nope.yaml"),
    "folder": ("validate", "/tmp"),
    "device": ("validate", "/dev/zero"),
    "random": ("validate", "/dev/urandom"),
    "empty": ("validate", ""),
    "surrogate": ("validate", "a\udcff.yaml"),
    "long": ("validate", "a" * 100_000),
    "url": ("validate", "http://[::1"),
    "report": ("report", "/nope"),
    "runs": ("runs", "list", "/nope"),
    "host_bracket": ("runs", "list", "--host", "http://[::1"),
    "host_ftp": ("runs", "list", "--host", "ftp://127.0.0.1:9"),
    "host_file": ("runs", "list", "--host", "file:///etc/passwd"),
    "host_newline": ("runs", "list", "--host", "http://127.0.0.1:9/\r\nX: y"),
    "port": ("runs", "list", "--host", "http://127.0.0.1:999999"),
    "timeout": ("runs", "list", "--host", _HOST, "--timeout", "-1"),
    "timeout_digits": ("runs", "list", "--host", _HOST, "--timeout", "9" * 5000),
    "token_binary": ("runs", "list", "--host", _HOST, "--token-file", "{in}/binary"),
    "token_device": ("runs", "list", "--host", _HOST, "--token-file", "/dev/zero"),
    "ca_binary": ("runs", "list", "--host", "https://127.0.0.1:9", "--ca-file", "{in}/binary"),
    "zoo": ("zoo", "get", "../../x"),
    "mirror_bracket": ("zoo", "get", "ssd_mobilenet_v2_320x320_coco17_tpu-8", "--mirror", "http://[::1/x"),
    "mirror_ftp": ("zoo", "get", "ssd_mobilenet_v2_320x320_coco17_tpu-8", "--mirror", "ftp://127.0.0.1/x"),
    "join": ("config", "join", "--model-config", "/nope", "-o", "{out}/j.config"),
    "cron": ("schedule", "preview", "{in}/none.yaml", "--set", "schedule.cron=0 0/\u00b2 * * * *"),
}
_CRONS = ("0 0/\u00b2 * * * *", "0 0 31 2 * *", "* " * 5000, "0 " + "0," * 100_000 + "0 * * * *", "@" * 1000)


def _arguments():
    def build(folder, chance):
        put(folder / "binary", b"\xff\xfe\n\0")
        put(folder / "x.yaml", "name: a\n")

    for name, words in _ARGUMENTS.items():
        yield Case(f"arguments/{name}", detflow(*words), build, REFUSED)
    settings = str(DIGITS / "settings.yaml")
    for number, cron in enumerate(_CRONS):
        command = detflow("schedule", "preview", settings, "--set", f"schedule.cron={cron}")
        yield Case(f"arguments/cron_{number}", command, expect=REFUSED)


def cases():
    """Yield calls with odd places and words."""
    yield from _odd_paths()
    yield from _destinations()
    yield from _workspaces()
    yield from _arguments()
