"""Each benchmark runs against its peers, at the smallest size that says something."""

import argparse
import copy
import importlib
import json
import sys
from pathlib import Path

import pytest

from detection_core.zoo.networks import list_networks
from tests.support.cases import cases, refused

TARGETS = f"targets --batch 2 --anchors 64 --proposals 16 --repeats 1 --before {Path(__file__).parents[2]}"


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a benchmark as a command; returns what it prints."""

    def call(words: str) -> str:
        name, *arguments = words.split()
        monkeypatch.setattr(sys, "argv", [name, *arguments])
        importlib.import_module(f"benchmarks.{name}").main()
        return capsys.readouterr().out

    return call


@cases(
    ("evaluation --images 4 --turns 1", "pycocotools"),
    (f"{TARGETS} --parts targets", "image by image"),
    ("ingest --masks --images 4 --repeat 1", "painted"),
    ("data_validation --images 20 --boxes 3 --part 10", "peak memory"),
)
def test_prints_ratios_beside_its_peer(run, *, words, peer):
    assert peer in run(words)


def test_non_maximum_suppression_and_the_operations_of_a_network(run):
    found = json.loads(run("nms --anchors 64 --classes 3 --runs 1"))
    assert found["ratio_ours_to_combined"] > 0
    smallest = list_networks()[0].name
    found = json.loads(run(f"networks operations {smallest}"))
    assert found["name"] == smallest and found["multiply_adds"] > found["parameters"] > 0


@pytest.mark.zoo
def test_what_takes_seconds_prints_ratios_beside_its_peers_too(run):
    assert "plain" in run("ingest --images 80 --repeat 1")
    rows = json.loads(run("annotations --images 3 --boxes 2"))
    assert len(rows) == 9 and {row["boxes"] for row in rows} == {"6"}
    assert "nothing" in run("drift_false_alarms --repeats 1")
    rows = json.loads(run("evaluation_workers --images 500 --workers 1 --turns 1"))
    assert [row["images"] for row in rows] == [500, 1000] and rows[0]["pycocotools / it, CPU"] > 0
    printed = run(f"{TARGETS} --parts criterion")
    assert printed.count("image by image") == 2 and printed.count("  before") == 1
    small = "--size 64 --depth 0.25 --classes 2"
    found = json.loads(run(f"prediction {small} --runs 1 --batches 1"))
    for kind in ("spread", "alike"):
        assert found[f"scores {kind}"]["batch of 1"]["cpu_ratio"] > 0
    found = json.loads(run(f"training_step {small} --batch 2 --steps 1"))
    for name in ("ours", "plain tf_keras", "compiled, image by image"):
        assert found[name]["ms_per_step"] > 0
    environments = "now kept,TF_CPU_ALLOCATOR_USE_BFC=true"
    found = json.loads(run(f"step_turns {environments} --steps 1 --batch 1 --size 64"))
    assert found["now"]["times_faster"] == 1.0 and found["kept"]["times_faster"] > 0


@pytest.mark.zoo
def test_tflite_files(run):
    printed = run("tflite --networks ssd --size 64 --classes 2 --turns 1 --runs 1 --threads 1")
    assert all(name in printed for name in ("float32", "int8"))


def test_an_efficientdet_beside_a_peer_that_is_missing_or_there(monkeypatch, tmp_path):
    from benchmarks import efficientdet

    work = {"efficientdet-lite0": 2, efficientdet.SSD: 1}
    subjects = [
        efficientdet.Subject(name=name, side=320, multiply_adds=billions * 10**9, config=None)
        for name, billions in work.items()
    ]
    times = {"efficientdet-lite0": 30.0, "efficientdet-lite0 effdet": 60.0, efficientdet.SSD: 20.0}
    ratios = {"ratio_to_effdet": 0.5, "ratio_to_ssd": 1.5, "ratio_to_ssd_per_operation": 0.75}
    found = efficientdet._rows(subjects, times, 1)["efficientdet-lite0"]
    assert found == {"ms": 30.0, "ms_per_billion_multiply_adds": 15.0, **ratios}
    peer = efficientdet.Peer(sys.executable, 1)
    assert "install torch" in peer.contender("step", subjects[0], "batch.npz")
    assert "no such network" in peer.contender("step", subjects[1], "batch.npz") or peer.missing
    peer.close()
    # Empty packages for what the peer imports before it reads its arguments.
    (tmp_path / "torch.py").write_text("def set_num_threads(number): assert number == 1\n")
    (tmp_path / "effdet.py").write_text("def create_model(name, **options): raise ImportError(name)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    there = efficientdet.Peer(sys.executable, 1)
    assert there.missing == ""
    assert "ImportError" in there.contender("step", subjects[0], "batch.npz")
    there.close()


def test_processes_take_turns_and_a_missing_peer_is_named():
    from benchmarks.turns import Contender, take_turns

    root = str(Path(__file__).parents[2])

    def process(name, work):
        code = f"from benchmarks.turns import serve\n{work}"
        return Contender(name, [sys.executable, "-c", code], root=root)

    found = [
        process("short", "serve(lambda: lambda: print('not an answer'))"),
        process("long", "serve(lambda: lambda: sum(range(3_000_000)))"),
        process("missing", "def make():\n import no_such_package\nserve(make, needs='it')"),
    ]
    take_turns(found, 2)
    short, long, missing = found
    assert "no_such_package" in missing.missing and "install it" in missing.missing and not missing.turns
    assert len(short.turns) == len(long.turns) == 2 and long.first["ready_gb"] > 0
    assert long.ratio(short) > 1 > short.ratio(long)


def test_families_are_beside_each_peer_which_gets_the_numbers_of_the_config(monkeypatch, tmp_path):
    from benchmarks import families
    from benchmarks.turns import Contender

    def contender(name, seconds, gigabytes, missing=""):
        monkeypatch.setattr(Contender, "__init__", lambda self: None)
        found = Contender()
        found.name, found.missing, found.first = name, missing, {"ready_gb": 0.5}
        found.turns = [{"cpu_s": s, "wall_s": 2 * s, "peak_gb": gigabytes} for s in seconds]
        return found

    ours, peer = contender("ours", (1.0, 2.0, 3.0), 1.5), contender("peer", (2.0, 2.5, 3.0), 2.0)
    table = families.rows([ours, peer, contender("other", (), 0, missing="install it")])
    assert table["ours"] == {"cpu_s": 2.0, "wall_s": 4.0, "peak_gb": 1.5, "working_gb": 1.0}
    assert table["peer"]["ours_cpu_ratio"] == 0.8 and table["peer"]["ours_peak_ratio"] == 0.75
    first, second, third = families.table_rows({"networks": {"center_net": {"step": table}}})
    assert list(second.values()) == ["center_net", "step", "peer", 2.5, 2.0, 0.8, 0.75]
    assert list(first.values())[-2:] == ["", ""] and third["CPU s"] == "install it"
    # Peers get the numbers of the config.
    options = argparse.Namespace(size=64, threads=1, score_threshold=0.25, batch=2, prediction_batch=1)
    work = families.settings("mask_rcnn", "step", options, str(tmp_path))
    numbers = {"proposals": 300, "sampled": 64, "detections": 100, "score_threshold": 0.25, "masks": 14}
    assert {name: work[name] for name in numbers} == numbers
    batch = families.read_batch(work)
    assert batch.images.pixels.shape == (2, 64, 64, 3) and batch.truth.masks.shape == (2, 7, 64, 64)
    options.batch = 0
    found = [families.images_of("ssd", part, options) for part in families.PARTS]
    assert [*found, families.images_of("mask_rcnn", "step", options)] == [8, 1, 2]


def test_injected_label_errors_are_of_three_kinds_and_found_again():
    from benchmarks import label_errors

    images = [{"id": number, "width": 100, "height": 80} for number in range(1, 11)]
    objects = [
        {"image_id": image["id"], "category_id": 1, "bbox": [10 + 40 * n, 20, 30, 20]}
        for image in images
        for n in range(2)
    ]
    made = {"images": images, "categories": [{"id": 1}, {"id": 2}], "annotations": copy.deepcopy(objects)}
    errors = label_errors.inject(made, 0.6, seed=1)
    assert {kind: len(found) for kind, found in errors.items()} == dict.fromkeys(label_errors.KINDS, 4)
    assert len(made["annotations"]) == 16
    assert sum(item["category_id"] == 2 for item in made["annotations"]) == 4
    assert sum(item["bbox"] not in [other["bbox"] for other in objects] for item in made["annotations"]) == 4
    for item in made["annotations"]:
        x, y, width, height = item["bbox"]
        assert x >= 0 and x + width <= 100 and y >= 0 and y + height <= 80
    sizes = {str(image["id"]): (100, 80) for image in images}
    own = [
        argparse.Namespace(source_id=name, label_box=None, detected_box=[y / 80, x / 100, b / 80, r / 100])
        for name, (x, y, r, b) in errors["overlooked"]
    ]
    far = argparse.Namespace(source_id="1", label_box=[0, 0, 0.1, 0.05], detected_box=None)
    # A second suspect of one error is a false alarm.
    hits = label_errors.found_rows([*own, own[0], far], errors["overlooked"], 0.5, sizes)
    assert hits == [True] * 4 + [False] * 2


def test_a_simulated_selection_has_one_start_and_other_images_than_those_measured():
    from benchmarks import selection

    pools, tests = zip(*(selection.divide(20, seed) for seed in range(3)), strict=True)
    assert tests[0] == tests[1] == tests[2] and len(tests[0]) == 5
    assert pools[0] != pools[1] and {*pools[0], *tests[0]} == set(range(20))
    whole = {
        "images": [{"id": 4}, {"id": 7}, {"id": 9}],
        "annotations": [{"image_id": 9}, {"image_id": 4}, {"image_id": 7}],
        "categories": [{"id": 1}],
    }
    part = selection.subset(whole, [2, 0])
    assert [image["id"] for image in part["images"]] == [9, 4] and part["categories"] == [{"id": 1}]
    assert part["annotations"] == [{"image_id": 9}, {"image_id": 4}]
    first = {"images": 2, "objects": 10, "mAP": 0.1, "mAP50": 0.2}
    ends = [{"images": 4, "objects": 10 * n, "mAP": 0.1 * n, "mAP50": 0.2 * n} for n in (2, 3, 4)]
    curves = {
        selection.RANDOM: [[first, ends[0]], [first, ends[1]]],
        selection.SELECTED: [[first, ends[2]], [first, {**ends[0], "mAP50": None}]],
    }
    rows = selection.rows_of("d", curves)
    assert [row["labelled images"] for row in rows] == ["2", "4"]
    assert rows[1]["mAP, random"] == "0.250" and rows[1]["mAP@.50, selected"] == "0.400"
    assert rows[1]["objects in them, selected"] == "30"
    assert rows[1]["gain in mAP@.50, by seed"] == "+0.400, -0.600"


def test_results_are_kept_and_the_page_has_their_tables(monkeypatch, tmp_path, capsys):
    from benchmarks import results

    assert all(results.with_tables(page.read_text()) == page.read_text() for page in results.PAGES)
    page = tmp_path / "page.md"
    monkeypatch.setattr(results, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(results, "PAGES", [page])
    monkeypatch.setattr(sys, "argv", ["/folder/some.py", "--od-api", "/folder/research", "--turns", "2"])
    results.keep(None, [{"never": 1}])
    results.keep("some", [{"": "step", "CPU s": 1.5}, {"": "prediction", "CPU s": ""}])
    kept = json.loads((tmp_path / "results" / "some.json").read_text())
    assert kept["command"] == "python -m benchmarks.some --od-api research --turns 2"
    assert kept["machine"] == results.machine() and len(kept["commit"]) == 8
    page.write_text("before\n<!-- results: some -->\nold\n<!-- end of results -->\nafter\n")
    monkeypatch.setattr(sys, "argv", ["results", "--check"])
    assert results.main() == 1 and "run python -m benchmarks.results" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["results"])
    assert results.main() == 0
    made = page.read_text()
    assert "| | CPU s |\n| --- | --- |\n| step | 1.5 |\n| prediction | |\n\n<!-- end" in made
    assert made.startswith("before\n<!--") and made.endswith("-->\nafter\n") and "old" not in made
    monkeypatch.setattr(sys, "argv", ["results", "--check"])
    assert results.main() == 0
    page.write_text("<!-- results: missing -->\n<!-- end of results -->\n")
    refused(FileNotFoundError, "missing", results.main)


@pytest.mark.zoo
def test_families_beside_the_reference(run):
    printed = run("families --networks center_net --parts prediction --size 128 --turns 1")
    found = json.loads(printed[: printed.rindex("}") + 1])["networks"]["center_net"]["prediction"]
    assert found["ours"]["cpu_s"] > 0 and "object_detection" in found["Object Detection API"]["missing"]


def test_weights_that_npm_cannot_fetch_may_be_put_by_hand(monkeypatch, tmp_path):
    from benchmarks.starting_weights import fetch_tflite

    monkeypatch.setenv("PATH", str(tmp_path))
    refused(SystemExit, r"bytes 184 to 9987912 of .* as object_detection\.tflite", fetch_tflite, tmp_path)
    (tmp_path / "object_detection.tflite").write_bytes(b"weights")
    assert fetch_tflite(tmp_path) == tmp_path / "object_detection.tflite"


def test_losses_by_quantization_are_of_the_same_seed():
    from benchmarks.quantization import table

    lines = [
        {"data": "digits", "seed": seed, "format": name, "mAP": value, "mAP@.50": value, **rest}
        for seed, name, value, rest in (
            (1, "float32", 0.5, {}),
            (2, "float32", 0.7, {}),
            (1, "int8", 0.49, {"heads_db": {"a": 30.0, "b": 26.0}, "boxes": 0.9}),
            (2, "int8", 0.71, {"heads_db": {"a": 28.0}, "boxes": 1.0}),
            (3, "int8", 0.1, {}),
        )
    ]
    interval = "0.00 (-1.00 to 1.00)"
    assert f"| int8 | 49.0 71.0 | {interval} | 60.0 | {interval} | 26.0 | 0.900 |" in table(lines)


@pytest.mark.zoo
def test_tiles_are_compared_with_whole_images_in_training_and_detection(run, tmp_path):
    printed = run(f"tiles --work {tmp_path} --scenes 3 --steps 2")
    rows = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    kinds = ("whole images", "tiles")
    assert [(row["trained on"], row["detected in"]) for row in rows] == [(a, b) for a in kinds for b in kinds]
    assert rows[0]["ratio"] == 1.0
