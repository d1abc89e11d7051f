"""What a checkpoint is; `tests/detection_core/tasks/test_describe.py` has those of every kind."""

import numpy as np

from detection_core.detectors.ssd.checkpoint_names.kinds import SSD_NAMES
from detection_core.training.checkpoint_content import DETECTOR, checkpoint_content
from detection_core.training.checkpoint_file import CheckpointFile
from tests.support.field_checkpoints import write_named_checkpoint


def test_a_detector_of_tensorflow_1_has_its_heads_beside_the_extractor(tmp_path):
    names = ("FeatureExtractor/MobilenetV1/Conv2d_0/weights", "BoxPredictor_0/ClassPredictor/weights")
    prefix = write_named_checkpoint(
        {name: np.zeros(1, np.float32) for name in names}, tmp_path / "model.ckpt"
    )
    content = checkpoint_content(CheckpointFile(prefix), SSD_NAMES)
    assert (content.named, content.of, content.heads, content.variables) == (True, DETECTOR, True, 2)
    assert content.text() == "a detector's checkpoint with heads (name-based, TensorFlow 1, 2 values)"
