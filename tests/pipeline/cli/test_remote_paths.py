"""Every verb and every setting that takes a path takes one on an object store, or says why not."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from components.publishing.destination import PushDestination
from detection_core.artifacts import detector as layout
from detection_core.artifacts.detection_statistics import DETECTION_STATISTICS, MONITORING
from detection_core.artifacts.label_errors import LABEL_ERRORS
from detection_core.artifacts.published import PublishedVersion
from detection_core.artifacts.signature import sign_folder
from detection_core.builders.detector import build_detector
from detection_core.config.label_map_file import load_label_map
from detection_core.config.load import parse_pipeline_config
from detection_core.exporters.detector_folder import write_detector
from detection_core.families.ssd.checkpoint_names import object_paths
from detection_core.storage import files
from pipeline.cli import parser
from pipeline.cli.base import Group
from pipeline.dag import build_dag
from pipeline.kubeflow.submission import open_source
from pipeline.local.workspace import Workspace
from pipeline.run_checks import run_checks
from pipeline.settings.setting_types import IsPath, Settings
from pipeline.settings.settings_file import load_settings
from pipeline.tuning.search import load_space
from tests.support.compiled import with_short_stack
from tests.support.dataset_files import Coco
from tests.support.field_checkpoints import write_object_checkpoint
from tests.support.keys import PRIVATE_KEY, PUBLIC_KEY
from tests.support.object_store import s3_server
from tests.support.plain_backbone import PLAIN
from tests.support.run_records import record
from tests.support.tiny_training import LABELS, config_text, write_examples

pytestmark = pytest.mark.slow

SETTINGS = """
name: remote
workspace: WORKSPACE
data: {path: data, label_map: label_map.pbtxt, shards_uri: shards}
model: {config: pipeline.config, override_files: [partial.config]}
train: {warm_start: base}
evaluate: {slices: slices.csv}
validation: {schema_file: schema.pbtxt}
push: {destination: pushed, sign: key.pem}
schedule: {cron: 0 0 3 * * *}
"""
REWRITER = "graph_rewriter { quantization { delay: 0 weight_bits: 8 activation_bits: 8 } }"
CONFIG = re.sub(r"(max_detections_per_class|max_total_detections): \d+", r"\1: 3", config_text(1, PLAIN))
"""So few boxes that the gate on boxes says nothing of this detector, which has learned nothing."""

TABLE = """
bench: files --output --examples --override-file
compare: file --model --quantized-model --examples
compile: settings --override-file --output
config: file --output --override-file --model-config --train-config --hparams --train-input --eval-config
config: --eval-input --graph-rewriter
data convert: --output
data labels: --model --detections --config --override-file --output
data preview: --data --override-file --examples --output
data report: --output --config
evaluate: --model --checkpoint --config --label-map --override-file --detections --annotations --watch
evaluate: --examples --output --baseline --slices --public-key
export: --model --quantized-model --examples --output
export-saved-model: --model --output --examples
import: --config --checkpoint --label-map --output --override-file
inspect: path --public-key
monitor: model log --output
predict: --model images --output --coco-images --public-key
quantize: --config --model --examples --output --override-file
report: workspace --output
rollback: destination --public-key
run: settings --override-file
runs list: workspace
runs prune: workspace
schedule create: file --override-file
schedule preview: settings
schedule run-local: settings --override-file
select: --model images --labelled --output --public-key
sensitivity: --model --examples --output
submit: file --override-file
train: --config --examples --output --warm-start --override-file
tune: settings --space --override-file
validate: file --override-file
"""
"""Arguments that are paths; the tests below use each of them, but for those of verbs that share their reader:
`settings`, `place` and `file` of the verbs of a cluster, `tune settings`, and `--override-file`."""
ROWS = [line.split(": ") for line in TABLE.strip().split("\n")]
REMOTE = {f"{verb} {argument}" for verb, arguments in ROWS for argument in arguments.split()}

LOCAL_OPTIONS = {"--token-file", "--ca-file"}
"""Secrets and certificates of this machine."""
LOCAL_ARGUMENTS = {"init --output", "tune --output"}
"""Where a person edits what is written, and where a search is kept under a lock."""
LOCAL_SETTINGS = {"workspace", "kubeflow.connection.token_file", "kubeflow.connection.ca_file"}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A bucket with examples, configurations, a detector, a checkpoint and an image; yields its address."""
    root = tmp_path_factory.mktemp("remote")
    examples = write_examples(root / "examples")
    (examples / "Split-train").rename(examples / "Split-eval")
    write_examples(root / "more")
    (root / "more" / "Split-train").rename(examples / "Split-train")
    config = parse_pipeline_config(CONFIG)
    model = build_detector(config.model)
    write_detector(model, config, load_label_map(str(examples / "label_map.pbtxt")), str(root / "base"))
    objects = {path: v.numpy() for path, v in object_paths(model.network).items()}
    (root / "zoo").mkdir()
    write_object_checkpoint(objects, root / "zoo" / "ckpt-0")
    texts = {
        "pipeline.config": f"{CONFIG}\n{REWRITER}", "partial.config": "train_config { num_steps: 1 }",
        "label_map.pbtxt": LABELS,
        "settings.yaml": SETTINGS.replace("WORKSPACE", str(root / "workspace")),
        "model.config": config_text(1).partition("train_config")[0].strip().removeprefix("model {")[:-1],
        "train.config": "batch_size: 2", "input.config": "label_map_path: 'x'",
        "eval.config": "num_examples: 3", "rewriter.config": "quantization { delay: 1 }",
        "key.pem": Path(PRIVATE_KEY).read_text(), "key.pub.pem": Path(PUBLIC_KEY).read_text(),
        "hparams.yaml": "num_classes: 7", "schema.pbtxt": "feature { name: 'image/encoded' type: BYTES }",
    }  # fmt: skip
    for name, text in texts.items():
        (root / name).write_text(text)
    Coco(root / "data").write()
    Image.fromarray(np.zeros((64, 64, 3), np.uint8)).save(root / "image.png")
    with s3_server() as bucket:
        files.copy_tree(str(root), f"{bucket}/all")
        yield f"{bucket}/all"


def test_every_argument_that_is_a_path_is_in_the_table():
    """So a new one fails this test until somebody has thought of object stores."""
    named = {"--output", "file", "settings", "workspace", "destination", "--config"}
    found = set()
    for entry in parser.VERBS:
        for verb in entry.verbs if isinstance(entry, Group) else (entry,):
            name = f"{entry.name} {verb.name}" if isinstance(entry, Group) else verb.name
            for argument in verb.all_arguments():
                flag, marks = argument.flags[-1], str(argument.options.get("metavar", "")).split("_")
                if flag in named or {"DIR", "FILE", "PREFIX", "IMAGE", "SETTINGS"} & set(marks):
                    found |= {f"{name} {flag}"} if flag not in (*LOCAL_OPTIONS, "--settings") else set()
    assert found == REMOTE | LOCAL_ARGUMENTS


def test_paths_of_the_settings_are_taken_from_the_settings_own_folder(store):
    def paths(section, prefix=""):
        for name, field in type(section).model_fields.items():
            value = getattr(section, name)
            if isinstance(value, Settings):
                yield from paths(value, f"{prefix}{name}.")
            elif any(isinstance(mark, IsPath) for mark in field.metadata):
                yield f"{prefix}{name}", value

    found = dict(paths(load_settings(f"{store}/settings.yaml")))
    assert {name: value for name, value in found.items() if name not in LOCAL_SETTINGS} == {
        "data.path": f"{store}/data", "data.label_map": f"{store}/label_map.pbtxt",
        "data.shards_uri": f"{store}/shards", "model.config": f"{store}/pipeline.config",
        "model.override_files": [f"{store}/partial.config"], "train.warm_start": f"{store}/base",
        "push.destination": f"{store}/pushed", "push.sign": f"{store}/key.pem", "train.weights_mirror": "",
        "validation.schema_file": f"{store}/schema.pbtxt", "evaluate.slices": f"{store}/slices.csv",
    }  # fmt: skip


def test_a_run_may_have_all_but_its_workspace_on_a_store(store, cli):
    settings = load_settings(f"{store}/settings.yaml", ['data.splits={"train": 1.0}', "evaluate.split=train"])
    assert build_dag(settings).steps
    checks = run_checks(settings)
    assert checks["starting_weights"] and checks["data_fingerprint"]
    refused = cli.json("run", f"{store}/settings.yaml", "--set", f"workspace={store}/workspace", code=2)
    assert "expected a local folder as workspace" in refused["message"]
    for words in (["report"], ["runs"], ["runs", "prune", "--keep", "1"]):
        assert "expected a local folder" in cli.json(*words, f"{store}/workspace", code=2)["message"]


def test_settings_and_configurations_are_validated_shown_converted_and_joined_there(store, cli):
    assert cli.json("validate", f"{store}/settings.yaml")["valid"]
    override = ["--override-file", f"{store}/partial.config"]
    assert cli.json("validate", f"{store}/pipeline.config", *override)["classes"] == 2
    missing = cli.json("validate", f"{store}/settings.yaml", "--set", f"model.config={store}/x", code=2)
    assert f"no file {store}/x" in missing["message"]
    assert "cannot read" in cli.json("validate", f"{store}/none.yaml", code=2)["message"]
    assert cli.json("schedule", "preview", f"{store}/settings.yaml")
    for action in ("show", "convert"):
        output = f"{store}/{action}.config"
        cli.json("config", action, f"{store}/pipeline.config", "-o", output)
        assert parse_pipeline_config(files.read_text(output)).model.ssd.num_classes == 2
    parts = ["model", "train", "input", "eval", "input", "rewriter"]
    flags = ["model-config", "train-config", "train-input", "eval-config", "eval-input", "graph-rewriter"]
    given = [t for f, p in zip(flags, parts, strict=True) for t in (f"--{f}", f"{store}/{p}.config")]
    cli.json("config", "join", *given, *override, "-o", f"{store}/joined.config")
    assert parse_pipeline_config(files.read_text(f"{store}/joined.config")).train_config.num_steps == 1
    hparams = ["--hparams", f"{store}/hparams.yaml", "-o", f"{store}/lite0.config"]
    cli.json("config", "from-automl", "efficientdet-lite0", *hparams)
    assert parse_pipeline_config(files.read_text(f"{store}/lite0.config")).model.efficientdet.num_classes == 7


def test_packages_reports_and_spaces_are_on_a_store(store, cli):
    with_short_stack(cli.json, "compile", f"{store}/settings.yaml", "-o", f"{store}/package.yaml")
    with open_source(f"{store}/package.yaml", ()) as source:
        assert source.path == f"{store}/package.yaml" and Path(source.package.path).exists()
    with open_source(f"{store}/settings.yaml", (), [f"{store}/partial.config"]) as source:
        assert source.settings and source.settings.push_destination == f"{store}/pushed"
    workspace = Workspace(load_settings(f"{store}/settings.yaml").workspace)
    times = {"started": "2026-11-22T00:00:00+00:00", "finished": "2026-11-22T00:00:01+00:00"}
    workspace.write_info(record(run_id="20261122-000000-aaaa", pipeline_name="remote", **times))
    assert len(cli.json("runs", f"{store}/settings.yaml")) == 1
    cli.json("report", f"{store}/settings.yaml", "--output", f"{store}/report.html")
    assert "remote" in files.read_text(f"{store}/report.html")
    path = f"{store}/space.yaml"
    files.write_text(path, "parameters: {train_config.batch_size: {choices: [2, 4]}}\ntrials: 3\n")
    assert load_space(path).trials == 3


def test_data_are_shown_converted_fed_and_measured_there(store, cli):
    config = ["--config", f"{store}/pipeline.config"]
    cli.json("data", "report", f"{store}/data", *config, "--output", f"{store}/looked-at")
    assert "<html" in files.read_text(f"{store}/looked-at/index.html")
    cli.json("data", "convert", f"{store}/data", "--output", f"{store}/converted")
    assert files.list_matching(f"{store}/converted", "*.json")
    examples = ["--examples", f"{store}/examples"]
    cli.json("data", "preview", config[1], *examples, "-n", "1", "--output", f"{store}/fed")
    assert files.exists(f"{store}/fed/index.html")
    files.write_text(f"{store}/found.json", json.dumps([]))
    labels = ["data", "labels", f"{store}/examples", "--output", f"{store}/labels"]
    told = cli.json(*labels, "--detections", f"{store}/found.json", code=2)["message"]
    assert "expected detections of the images, found none" in told
    found = cli.json(*labels, "--model", f"{store}/base", "--split", "eval", "--high-score", "1")
    assert len(found["images"]) == 6 and LABEL_ERRORS.read(f"{store}/labels").images
    bench = ["bench", "input", config[1], *examples, "--no-step", "--images", "4", "--seconds", "0.05"]
    assert cli.json(*bench)["stages"]
    # What a person edits is written to this machine.
    refused = cli.json("init", f"{store}/data", "--output", f"{store}/first", code=2)
    assert f"{store}/first" in refused["message"]


def test_a_version_on_a_store_is_rolled_back(store, cli):
    destination = PushDestination(f"{store}/pushed")
    model = layout.serving_dir(f"{store}/base")
    versions = [PublishedVersion(number=0, run_key=key) for key in "ab"]

    def sign(folder):
        sign_folder(folder, f"{store}/key.pem", "base", {})

    first, second = (destination.publish(model, "", version, 0, sign=sign).number for version in versions)
    key = ("--public-key", f"{store}/key.pub.pem")
    for place in ("settings.yaml", "pushed"):
        assert cli.json("rollback", f"{store}/{place}", *key)["version"] == first
        assert cli.json("rollback", f"{store}/{place}", "--to", second, *key)["version"] == second
    cli("inspect", f"{store}/pushed", *key)
    files.write_text(f"{store}/pushed/saved_model/{second}/more.txt", "")
    there = ("--model", f"{store}/pushed", "--output", f"{store}/none")
    for words in (("predict", *there, f"{store}/image.png"), ("evaluate", *there, "--examples", store)):
        assert "found other: more.txt" in cli.json(*words, *key, code=2)["message"]
    refused = cli.json("rollback", f"{store}/nowhere", code=2)
    assert "expected a settings file or a push destination" in refused["message"]


def test_a_checkpoint_is_imported_measured_and_used(store, cli):
    given = {"config": "pipeline.config", "checkpoint": "zoo/ckpt-0", "label-map": "label_map.pbtxt"}
    arguments = [text for name, path in given.items() for text in (f"--{name}", f"{store}/{path}")]
    made = cli.json("import", *arguments, "--output", f"{store}/imported")
    assert made["model"] == f"{store}/imported/model" and made["checkpoint"] == f"{store}/zoo/ckpt-0"
    assert made["restored"] > 20 and made["moving_averages"] == 0
    model = ["--model", made["model"]]
    (found,) = cli.json("predict", *model, f"{store}/image.png", "--output", f"{store}/predicted")
    assert files.exists(found["picture"]) and found["picture"].startswith(f"{store}/predicted/")
    compared = ["--baseline", f"{store}/base", "--examples", f"{store}/examples"]
    measured = cli.json("evaluate", *model, *compared, "--output", f"{store}/evaluated")
    assert measured["images"] == 6 and measured["baseline"]
    assert json.loads(files.read_text(f"{store}/evaluated/evaluation/metrics.json")) == measured
    direct = cli.json("evaluate", *arguments, *compared, "--output", f"{store}/direct")
    assert direct["metrics"] == measured["metrics"] and files.exists(f"{store}/direct/model")
    both = cli.json("evaluate", *model, *arguments, *compared, "--output", f"{store}/no", code=2)
    assert "--checkpoint: expected --model or --checkpoint, found both" in both["message"]
    alone = cli.json("evaluate", *model, *compared, *arguments[:2], "--output", f"{store}/no", code=2)
    assert "--checkpoint: expected a checkpoint of this config" in alone["message"]
    statistics = files.read_text(DETECTION_STATISTICS.path(f"{store}/evaluated/evaluation"))
    files.write_text(layout.extra_file(made["model"], DETECTION_STATISTICS.name), statistics)
    seen = cli.json("monitor", made["model"], f"{store}/predicted", "--output", f"{store}/monitored")
    assert seen["images"] == 1 and MONITORING.read(f"{store}/monitored").not_judged
    assert files.exists(f"{store}/monitored/index.html")


def test_images_to_label_are_selected_there(store, cli):
    words = ["select", "--model", f"{store}/base", f"{store}/image.png", "--output", f"{store}/next"]
    found = cli.json(*words, "--labelled", f"{store}/examples")
    assert found["labelled_images"] > 0
    assert files.read_text(f"{store}/next/selected.txt") == f"{store}/image.png\n"
    assert f"{store}/image.png" in files.read_text(f"{store}/next/label_studio.json")


def test_results_of_any_program_are_measured_with_their_annotations(store, cli):
    item = {"image_id": 7, "category_id": 2, "bbox": [1, 2, 10, 10]}
    truth = {"images": [{"id": 7, "height": 20, "width": 30}], "categories": [{"id": 2, "name": "cat"}]}
    files.write_text(
        f"{store}/truth.json", json.dumps(truth | {"annotations": [item | {"id": 1, "area": 100}]})
    )
    files.write_text(f"{store}/results.json", json.dumps([item | {"score": 0.5}]))
    words = ["evaluate", "--output", f"{store}/measured", "--detections", f"{store}/results.json"]
    whole = [*words, "--annotations", f"{store}/truth.json"]
    bound = json.dumps({"PascalBoxes_Precision/mAP@0.5IOU": {"lower_bound": 0.9}})
    files.write_text(f"{store}/slices.csv", "source_id,weather\n7,sun\n8,rain\n")
    sliced = ["--slices", f"{store}/slices.csv", "--thresholds", bound]
    found = cli.json(*whole, "--metrics-set", "pascal_voc_detection_metrics", *sliced)
    assert [(one["feature"], one["value"]) for one in found["slices"]][1:] == [("weather", "sun")]
    assert found["blessed"] and len(found["thresholds"]) == 1
    assert json.loads(files.read_text(f"{store}/measured/evaluation/metrics.json")) == found
    assert files.exists(f"{store}/measured/blessing/BLESSED")
    for more, message in (
        ((*words, "--metrics-set", "coco_mask_metrics"), "--annotations: expected a file, found none"),
        ((*whole, "--metrics-set", "coco_mask_metric"), r"metrics_set[0]: expected a set of metrics, found"),
        ((*whole, "--thresholds", bound), "thresholds: unknown metric 'PascalBoxes_Precision/mAP@0.5IOU'"),
        ((*whole, "--examples", "x"), "--annotations: expected examples or annotations, found both"),
        ((*whole, "--model", "x"), "--detections: expected --model or --detections, found both"),
        (words, "--examples: expected a folder, found none"),
    ):
        assert message in cli.json(*more, code=2)["message"]


def test_training_goes_on_from_weights_on_a_store_and_keeps_its_checkpoints_there(store, cli):
    common = ["train", "--config", f"{store}/pipeline.config", "--examples", f"{store}/examples"]
    fields = {"": f"={store}/zoo/ckpt-0", "_version": "=V2", "_type": "=full"}
    checkpoint = [w for k, v in fields.items() for w in ("--set", f"train_config.fine_tune_checkpoint{k}{v}")]
    other = cli.json(*common, *checkpoint, "--output", f"{store}/other")
    assert other["started_from"].startswith(f"{store}/zoo")
    output = f"{store}/trained"
    arguments = [*common, "--output", output, "--warm-start", f"{store}/base"]
    first = cli.json(*arguments, "--override-file", f"{store}/partial.config")
    assert store in first["started_from"]
    work = files.join(output, "work", first["fingerprint"])
    assert "ckpt-1.index" in files.list_dir(f"{work}/checkpoints") and files.list_dir(f"{work}/logs/train")
    watched = ["--watch", f"{output}/work", "--output", f"{output}/watched"]
    assert list(cli.json("evaluate", *watched)["scores"]) == ["1"]
    assert len(files.read_text(f"{output}/watched/validation.jsonl").splitlines()) == 1
    assert cli.json(*arguments)["start_step"] == 1
    assert files.exists(f"{output}/model/Format-Serving/saved_model.pb")


def test_the_layers_of_a_detector_are_measured_on_a_store(store, cli):
    common = ["--model", f"{store}/base", "--examples", f"{store}/examples", "--no-accuracy"]
    common += ["--representative-examples", "2"]
    found = cli.json("sensitivity", *common, "--output", f"{store}/sensitivity")
    assert json.loads(files.read_text(f"{store}/sensitivity/sensitivity.json")) == found


@pytest.mark.zoo
def test_a_detector_is_quantized_and_exported_on_a_store(store, cli):
    common = ["--model", f"{store}/base", "--examples", f"{store}/examples"]
    config = ["--config", f"{store}/pipeline.config", "--set", "train_config.num_steps=1"]
    assert cli.json("quantize", *common, *config, "--output", f"{store}/quantized")["quantized"]
    quantized = ["--quantized-model", f"{store}/quantized/quantized_model", "--max-map-drop", "1.0"]
    cli.json("export", *common, *quantized, "--formats", "int8", "--output", f"{store}/exported")
    path = f"{store}/exported/tflite/model_int8.tflite"
    assert cli.json("compare", path, *common, *quantized[:2])["problems"] == []
    assert cli.json("predict", "--model", path, f"{store}/image.png", "--output", f"{store}/predicted")
