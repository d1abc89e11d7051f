"""An evaluation on Beam's workers gives the files that one process gives."""

import dataclasses
import functools
import json
from pathlib import Path

import numpy as np
import pytest

from component_specs import EvaluatorJob
from components.evaluator.distributed import evaluate_on_beam
from components.evaluator.run import run
from components.runtime.beam_pipeline import IN_PROCESS, in_processes
from detection_core.artifacts.evaluation import MAP
from detection_core.builders.evaluation_settings import EvaluateOptions
from detection_core.errors import ConfigError, ModelError
from detection_core.evaluation.coco_results import write_coco_results
from detection_core.evaluation.measure import join_measurements
from detection_core.structures import Instances
from detection_core.tasks.evaluate import plan_evaluation
from tests.support import blobs
from tests.support.beam_programs import worker_pool

SETS = "".join(
    f"metrics_set: '{name}_metrics' "
    for name in ("coco_detection", "pascal_voc_detection", "oid_challenge_detection", "tide")
)
MEASURED_HERE = ("seconds_per_image", "peak_memory_bytes")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Eleven images in five files, one of them empty; a detector and a worse baseline."""
    root = tmp_path_factory.mktemp("evaluator")
    blobs.write_examples(root / "examples", "test", blobs.scenes(11), shard_ends=(1, 5, 5, 9))
    exported = f"export_path: '{root / 'exported.json'}'"
    config = f"eval_config {{ {SETS} batch_size: 3 {exported} include_metrics_per_category: true }}"
    return {
        "examples": str(root / "examples"),
        "model": blobs.save_folder(blobs.BlobDetector(shift=0.01), root / "model", config=config),
        "baseline": blobs.save_folder(blobs.BlobDetector(shift=0.03), root / "baseline"),
    }


def evaluated(folders, folder, **changes):
    """Run the step; return its properties, files and metrics, without those that time and memory change."""
    job = EvaluatorJob(
        evaluation=str(folder / "evaluation"),
        blessing=str(folder / "blessing"),
        split="test",
        pictures=2,
        slices="image_size",
        write_detections=True,
        thresholds={MAP: {"min_change": 0.0}},
        **{**folders, **changes},
    )
    properties = run(job)
    files = {path.name: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    if "baseline" in folders:
        exported = Path(folders["examples"]).with_name("exported.json")
        assert exported.read_bytes() == files["coco_results.json"]
        exported.unlink()
    metrics = json.loads(files.pop("metrics.json"))
    assert all(metrics.pop(name) > 0 for name in MEASURED_HERE)
    return properties, files, metrics


@pytest.fixture(scope="module")
def in_one_process(folders, tmp_path_factory):
    return evaluated(folders, tmp_path_factory.mktemp("here"))


def test_workers_write_what_one_process_writes(folders, in_one_process, tmp_path):
    properties, files, metrics = in_one_process
    assert properties["blessed"] and properties["images"] == 11
    assert metrics["baseline"][MAP] < metrics["metrics"][MAP] and metrics["intervals"]
    assert {"coco_results.json", "curves.json", "index.jsonl", "BLESSED"} <= files.keys()
    assert evaluated(folders, tmp_path, distributed=True, beam_args=tuple(IN_PROCESS)) == in_one_process


@pytest.mark.slow
def test_so_do_two_processes_and_a_pool_behind_the_portable_interface(folders, in_one_process, tmp_path):
    two = evaluated(folders, tmp_path / "two", distributed=True, beam_args=tuple(in_processes(2)))
    assert two == in_one_process
    with worker_pool(tmp_path / "pool.log") as (_, external):
        portable = ("--runner=PortableRunner", "--job_endpoint=embed", *external)
        pool = evaluated(folders, tmp_path / "pool", distributed=True, beam_args=portable)
    assert pool == in_one_process


def test_masks_keypoints_and_lvis_are_those_of_one_process(tmp_path):
    blobs.write_examples(tmp_path / "examples", "test", blobs.scenes(7), shard_ends=(2, 5), shapes=True)
    sets = (
        "coco_mask_metrics",
        "coco_keypoint_metrics",
        "lvis_mask_metrics",
        "oid_challenge_segmentation_metrics",
    )
    config = f"""
      eval_config {{ {"".join(f"metrics_set: '{name}' " for name in sets)} }}
      eval_input_reader {{ load_instance_masks: true mask_type: PNG_MASKS num_keypoints: 2 }}
    """
    model = blobs.save_folder(
        blobs.ShapeDetector(shift=0.02), tmp_path / "model", config=config, labels=blobs.SHAPE_LABELS
    )
    here, there = (
        evaluated({"examples": str(tmp_path / "examples"), "model": model}, tmp_path / name, **changes)
        for name, changes in (("here", {}), ("there", {"distributed": True, "beam_args": tuple(IN_PROCESS)}))
    )
    assert here == there
    metrics = here[2]["metrics"]
    for name in ("DetectionMasks_Precision/mAP", "Keypoints_Precision/mAP", "DetectionMasks_APc"):
        assert 0 < metrics[name] < 1, (name, sorted(metrics))


def test_parts_join_to_the_matches_of_the_whole(folders, tmp_path):
    options = EvaluateOptions(split="test")
    places = {"model_path": folders["model"], "baseline_path": folders["baseline"]}
    evaluation = plan_evaluation(
        examples_dir=folders["examples"], evaluation_dir=str(tmp_path / "out"), options=options, **places
    )
    runners = evaluation.load()
    whole = evaluation.match(evaluation.measure(runners, evaluation.truth))
    parts = [evaluation.match(evaluation.measure(runners, part, partial=True)) for part in evaluation.parts]
    assert [len(part["model"].images) for part in parts] == [1, 4, 0, 4, 2]
    joined_parts = join_measurements(parts)
    for name, of_whole in whole.items():
        joined = joined_parts[name]
        ids = [[image.truth.source_id for image in one.images] for one in (joined, of_whole)]
        assert ids[0] == ids[1] and joined.tables.keys() == of_whole.tables.keys() == {"bbox"}
        for shape, table in of_whole.tables.items():
            for field in dataclasses.fields(table):
                found, expected = (getattr(one.tables[shape], field.name) for one in (joined, of_whole))
                np.testing.assert_array_equal(found, expected, f"{name} {field.name}")


def test_a_worker_s_error_is_raised_as_in_one_process_and_leaves_nothing(folders, tmp_path):
    broken = blobs.save_folder(blobs.BlobDetector(score=float("nan")), tmp_path / "broken")
    for change in ({"model": broken}, {"model": str(tmp_path / "missing")}):
        messages = set()
        for beam_args in ((), tuple(IN_PROCESS)):
            with pytest.raises(ModelError) as raised:
                evaluated(
                    folders, tmp_path / "out", distributed=bool(beam_args), beam_args=beam_args, **change
                )
            messages.add(str(raised.value))
        assert len(messages) == 1 and not list((tmp_path / "out").glob("*"))


def test_detections_in_a_file_are_measured_in_one_process(folders, tmp_path):
    path = str(tmp_path / "found.json")
    nothing = Instances(source_id="scene 0", boxes=np.zeros((0, 4)), classes=np.zeros(0, np.int32))
    write_coco_results(path, [("scene 0", nothing)])
    plan = functools.partial(
        plan_evaluation,
        model_path=path,
        examples_dir=folders["examples"],
        evaluation_dir=str(tmp_path / "out"),
        options=EvaluateOptions(split="test"),
    )
    with pytest.raises(ConfigError, match=r"found detections in .*found\.json; measure them in one process"):
        evaluate_on_beam(plan, IN_PROCESS)
    assert not (tmp_path / "out").exists()
