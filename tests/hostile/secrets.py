"""Sentinel secrets in addresses, in the environment and in what servers answer: they stand in no output."""

import dataclasses
import itertools
import json

from tests.hostile.case import ERROR, REFUSED, Case, detflow, put, step, using
from tests.hostile.data_sets import coco
from tests.hostile.texts import settings_of

_TOKEN, _COOKIE, _KEY = "tok-SENTINEL-1a2b3c", "session=cook-SENTINEL-9z8y", "AKIASENTINEL00000001"
_SECRET, _PASSWORD = "sEcReTsEnTiNeL/abc+def", "pass-SENTINEL-7"
_WORDS = ("SENTINEL", "sEcReTsEnTiNeL")
_SPLITS = '{"train": {"annotations": "a.json", "images": "i"}}'
_NOBODY = "http://127.0.0.1:9"
_AWS = {"AWS_ACCESS_KEY_ID": _KEY, "AWS_SECRET_ACCESS_KEY": _SECRET, "AWS_REGION": "us-east-1"}
_AWS |= {"AWS_SESSION_TOKEN": "sess-SENTINEL-77", "AWS_MAX_ATTEMPTS": "1"}


def _answer(status, echo=False, kind="text/plain", body=b""):
    """Return a server that may repeat the whole request, headers included, in its answer."""

    def answer(connection, head):
        text = body + (head + repr(head).encode() if echo else b"")
        fields = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(text)}\r\n\r\n"
        connection.sendall(fields.encode() + text)

    return answer


_SERVERS = {
    "401": _answer("401 No", echo=True),
    "403": _answer("403 No", echo=True),
    "404": _answer("404 None", echo=True),
    "500": _answer("500 Wrong", echo=True),
    "html": _answer("200 OK", kind="text/html", body=b"<html><title>login</title></html>"),
    "json": _answer("200 OK", echo=True, kind="application/json", body=b'{"multi_user": '),
}


def _write_settings(folder, field, value):
    coco(folder / "data")
    data = {"path": str(folder / "data"), "splits": {"train": 0.5, "eval": 0.5}}
    tree = settings_of(workspace=str(folder.parent / "out/w"), data=data)
    section, name = field.split("__")
    tree.setdefault(section, {})[name] = value
    put(folder / "settings.yaml", json.dumps(tree))


def _cluster():
    for name, server in _SERVERS.items():
        call = detflow("runs", "list", "--host", "{server}", "--timeout", "5")
        for flag, value in {"token": _TOKEN, "cookie": _COOKIE}.items():
            command = (*call, f"--{flag}-env", "T")
            yield Case(f"secrets/{flag}_{name}", command, env={"T": value}, server=server)
    odd = {"newline": f"{_TOKEN}\nrest", "not_latin": f"{_TOKEN}\u2026", "carriage": f"{_TOKEN}\rX: y"}
    for (name, value), flag in itertools.product(odd.items(), ("token", "cookie")):
        command = detflow("runs", "list", "--host", _NOBODY, f"--{flag}-env", "T")
        yield Case(f"secrets/{flag}_{name}", command, env={"T": value})
    address = f"http://user:{_PASSWORD}@127.0.0.1:9"
    yield Case("secrets/host", detflow("runs", "list", "--host", address), expect=REFUSED)
    proxied = detflow("runs", "list", "--host", "http://10.255.255.1", "--timeout", "5")
    yield Case("secrets/proxy", proxied, env={"http_proxy": address})


_PATHS = {
    "s3_pair": f"s3://{_KEY}:sEcReTsEnTiNeL@bucket/data",
    "s3_pair_slash": f"s3://{_KEY}:{_SECRET}@bucket/data",
    "s3_query": f"s3://bucket/data?token={_TOKEN}",
    "gs_token": f"gs://bucket/data?token={_TOKEN}",
    "gs_signature": f"gs://bucket/data?X-Goog-Signature={_TOKEN}",
    "gs_pair": f"gs://name:{_PASSWORD}@bucket/data",
    "azure_query": f"az://bucket/data?sv=1&sig={_TOKEN}",
    "http_pair": f"http://name:{_PASSWORD}@127.0.0.1:9/data",
    "hdfs_pair": f"hdfs://name:{_PASSWORD}@127.0.0.1:9/data",
}


def _paths():
    for name, path in _PATHS.items():
        env = {**_AWS, "AWS_ENDPOINT_URL": _NOBODY, "STORAGE_EMULATOR_HOST": _NOBODY}
        calls = {
            "example_gen": step("example_gen", examples="{out}/e", data_path=path, splits=_SPLITS),
            "run_checker": step("run_checker", data_path=path, splits=_SPLITS, push_destination=path),
            "init": detflow("init", path, "-o", "{out}/w"),
            "rollback": detflow("rollback", path),
            "inspect": detflow("inspect", path),
            "evaluate": detflow("evaluate", "--model", path, "--examples", path, "--output", "{out}/e"),
        }
        for verb, command in calls.items():
            yield Case(f"secrets/{verb}_{name}", command, env=env, seconds=90)
    fields = ("data__path", "data__shards_uri", "push__destination", "train__weights_mirror", "model__config")
    for field, (name, path) in itertools.product(fields, list(_PATHS.items())[1:5:2]):
        build = using(_write_settings, field, path)
        for verb in ("validate", "run"):
            command = detflow(verb, "{in}/settings.yaml")
            yield Case(f"secrets/{verb}_{field}_{name}", command, build, env=_AWS)


def _stores():
    reading = step("example_gen", examples="{out}/e", data_path="s3://bucket/data", splits=_SPLITS)
    for name in ("403", "404", "500", "html"):
        env = {**_AWS, "AWS_ENDPOINT_URL": "{server}"}
        yield Case(f"secrets/s3_{name}", reading, env=env, server=_SERVERS[name], seconds=120)
    odd = {
        "endpoint": {"AWS_ENDPOINT_URL": f"http://user:{_PASSWORD}@127.0.0.1:9"},
        "session_newline": {"AWS_SESSION_TOKEN": "sess-SENTINEL-77\nx", "AWS_ENDPOINT_URL": _NOBODY},
        "key_newline": {"AWS_ACCESS_KEY_ID": f"{_KEY}\nx", "AWS_ENDPOINT_URL": _NOBODY},
    }
    for name, env in odd.items():
        yield Case(f"secrets/s3_{name}", reading, env={**_AWS, **env}, seconds=120)


def _mirrors():
    model = "ssd_mobilenet_v2_320x320_coco17_tpu-8"
    addresses = {
        "query": "{server}/w?sv=1&sig=" + _TOKEN,
        "token": "{server}/w?token=" + _TOKEN,
        "nobody": f"http://name:{_PASSWORD}@127.0.0.1:9/w",
    }
    for (name, address), server in itertools.product(addresses.items(), ("403", "404", "html")):
        for place in ("flag", "variable"):
            command = detflow("zoo", "get", model, *(("--mirror", address) if place == "flag" else ()))
            env = {} if place == "flag" else {"DETFLOW_WEIGHTS_MIRROR": address}
            case = f"secrets/mirror_{name}_{server}_{place}"
            yield Case(case, command, env=env, server=_SERVERS[server], expect=(ERROR,))


def cases():
    """Yield calls with sentinels in addresses and variables."""
    for case in itertools.chain(_cluster(), _paths(), _stores(), _mirrors()):
        yield dataclasses.replace(case, secrets=_WORDS)
