"""The decoders that apps copy find what the file with post-processing finds."""

import ast
import json
import re
import runpy
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.examples.headless_decoder.goldens import FOLDER, goldens

GOLDENS = json.loads((FOLDER / "goldens.json").read_text())
NODE = """
import {readFileSync} from "node:fs";
import {decode} from "./decode.mjs";
const {decoding, location, scores, cases} = JSON.parse(readFileSync("goldens.json"));
const rows = ({score, post_process}, least) => decode(
  new Float32Array(location), new Float32Array(scores[score]),
  {...decoding, post_process: {...decoding.post_process, ...post_process}}, least,
).map((one) => [...one.box, one.score, one.label]);
console.log(JSON.stringify([...cases.map((each) => rows(each)), rows(cases[2], 0.92)]));
"""
# What a Kotlin or a Swift program says of each case, in lines of numbers.
KOTLIN = """
fun main() {{
{cases}
}}
fun show(found: List<Detection>) =
    println(found.map {{ it.box.toList() + listOf(it.score, it.label.toFloat()) }})
"""


def by_python():
    decode = runpy.run_path(str(FOLDER / "decode.py"))["decode"]

    def rows(case, **least):
        limits = GOLDENS["decoding"]["post_process"] | case["post_process"]
        decoding = GOLDENS["decoding"] | {"post_process": limits}
        found = decode(GOLDENS["location"], GOLDENS["scores"][case["score"]], decoding, **least)
        return [[*one.box, one.score, one.label] for one in found]

    return [*map(rows, GOLDENS["cases"]), rows(GOLDENS["cases"][2], min_score=0.92)]


def by_node():
    if shutil.which("node") is None:
        pytest.skip("Node is not installed")
    command = ["node", "--input-type=module", "--eval", NODE]
    return json.loads(subprocess.run(command, capture_output=True, check=True, cwd=FOLDER, timeout=60).stdout)


def by_kotlin(folder):
    """Compile and run the Kotlin text; a compiler of 2.0 needs half a minute."""
    if shutil.which("kotlinc") is None:
        pytest.skip("kotlinc is not installed")
    calls = [(case, 0.0) for case in GOLDENS["cases"]] + [(GOLDENS["cases"][2], 0.92)]
    (folder / "main.kt").write_text(KOTLIN.format(cases="\n".join(_kotlin_call(*call) for call in calls)))
    sources = [str(FOLDER / "Decode.kt"), str(folder / "main.kt")]
    subprocess.run(["kotlinc", *sources, "-include-runtime", "-d", str(folder / "main.jar")], check=True)
    done = subprocess.run(["java", "-jar", str(folder / "main.jar")], capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.decode().splitlines()]


def _kotlin_call(case, least):
    limits = GOLDENS["decoding"]["post_process"] | case["post_process"]
    scales = [limits.pop(f"{side}_scale") for side in "yxhw"]
    named = {re.sub("_(.)", lambda found: found[1].upper(), name): value for name, value in limits.items()}
    values = {"sigmoid": True, **named}
    given = ", ".join(f"{name} = {_literal(value)}" for name, value in values.items())
    given += f", scales = floatArrayOf({', '.join(map(_literal, scales))})"
    text = " ".join(map(str, GOLDENS["location"])), " ".join(map(str, GOLDENS["scores"][case["score"]]))
    anchors = " ".join(map(str, np.ravel(GOLDENS["decoding"]["anchors"])))
    location, score, flat = (f'"{each}".split(" ").map {{ it.toFloat() }}' for each in (*text, anchors))
    decoding = f"BoxDecoding(anchors = {flat}.chunked(4).map {{ it.toFloatArray() }}, {given})"
    return f"    show(decode({location}.toFloatArray(), {score}.toFloatArray(), {decoding}, {least}f))"


def _literal(value):
    return (
        f"{value}f" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else value
    )


@pytest.mark.parametrize("language", ["python", "node", "kotlin"])
def test_a_decoder_finds_the_goldens(language, tmp_path):
    ways = {"python": by_python, "node": by_node, "kotlin": lambda: by_kotlin(tmp_path)}
    *found, good = ways[language]()
    for case, rows in zip(GOLDENS["cases"], found, strict=True):
        np.testing.assert_allclose(rows, case["found"], atol=2e-5, err_msg=case["name"])
    # A least score leaves out the others, and changes nothing else.
    expected = [row for row in GOLDENS["cases"][2]["found"] if row[4] >= 0.92]
    assert 0 < len(expected) < len(GOLDENS["cases"][2]["found"])
    np.testing.assert_allclose(good, expected, atol=2e-5)


def test_the_python_decoder_needs_python_alone():
    tree = ast.parse((FOLDER / "decode.py").read_text())
    names = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    names |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    assert {name.partition(".")[0] for name in names} <= set(sys.stdlib_module_names)


@pytest.mark.slow
def test_the_goldens_are_what_litert_finds():
    made = json.loads(json.dumps(goldens()))
    for case, fresh in zip(GOLDENS["cases"], made["cases"], strict=True):
        assert (case["name"], case["post_process"]) == (fresh["name"], fresh["post_process"])
        np.testing.assert_allclose(case["found"], fresh["found"], atol=2e-5)
    assert {key: GOLDENS["decoding"][key] for key in ("sigmoid", "post_process")} == {
        key: made["decoding"][key] for key in ("sigmoid", "post_process")
    }
    np.testing.assert_allclose(GOLDENS["location"], made["location"], atol=1e-5)
