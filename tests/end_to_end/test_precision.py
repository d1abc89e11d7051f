"""What training in sixteen bits costs on the digits: nothing that seeds do not cost more of."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import pytest

import detection_core
from component_specs import ExampleGenJob
from components.example_gen.run import run as generate
from tests.end_to_end.conftest import COMPOSE, ROOT

CONFIG = ROOT / "examples" / "digits" / "pipeline.config"
MAP = "DetectionBoxes_Precision/mAP@.50IOU"
STEPS, SIDE = 1000, 128
RATE = "train_config.optimizer.momentum_optimizer.learning_rate.cosine_decay_learning_rate"
# Trainings of this length that differ in their seed, or in a processor's rounding, spread by 0.03 around
# their mean, so means of three by 0.03 around each other; NOISE is twice that. What learned nothing would
# equal anything, so each mean has to be above LEAST.
SEEDS = (1, 2, 3)
NOISE, LEAST = 0.06, 0.3


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    subprocess.run([sys.executable, str(COMPOSE), str(folder / "scenes")], check=True, timeout=300)
    splits = {s: {"annotations": f"{s}.json", "images": f"images/{s}"} for s in ("train", "eval", "test")}
    generate(
        ExampleGenJob(
            examples=str(folder / "examples"),
            data_path=str(folder / "scenes"),
            splits=splits,
        )
    )
    return folder / "examples"


def accuracy(precision: str, examples: Path, folder: Path, seed: int) -> float:
    """Train in a precision; return mAP@.50 of the test split."""
    size = "model.ssd.image_resizer.fixed_shape_resizer"
    overrides = {
        f"{size}.height": SIDE,
        f"{size}.width": SIDE,
        "train_config.num_steps": STEPS,
        "train_config.batch_size": 8,
        "train_config.seed": seed,
        "train_config.precision": precision,
        f"{RATE}.total_steps": STEPS,
        f"{RATE}.learning_rate_base": 0.04,
    }
    trained = detection_core.train(
        detection_core.load_config(CONFIG, overrides), output=folder / precision, examples=examples
    )
    options = detection_core.EvaluateOptions(split="test")
    return float(detection_core.evaluate(trained, examples=examples, options=options).metrics[MAP])


def mean_accuracy(precision: str, examples: Path, folder: Path) -> float:
    """Train once with each seed; return the mean of mAP@.50."""
    found = []
    for seed in SEEDS:
        found.append(accuracy(precision, examples, folder / str(seed), seed))
        print(precision, seed, found[-1], flush=True)
    return statistics.fmean(found)


@pytest.fixture(scope="module")
def reference(examples: Path, tmp_path_factory: pytest.TempPathFactory) -> float:
    return mean_accuracy("FLOAT32", examples, tmp_path_factory.mktemp("reference"))


@pytest.mark.zoo
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("precision", ["BFLOAT16", "FLOAT16"])
def test_as_much_is_found_in_sixteen_bits(
    precision: str, reference: float, examples: Path, tmp_path: Path
) -> None:
    found = mean_accuracy(precision, examples, tmp_path)
    assert reference > LEAST and found > LEAST
    assert found == pytest.approx(reference, abs=NOISE)
