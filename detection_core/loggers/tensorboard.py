"""TensorBoard's event files."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from detection_core.loggers.base import Histogram, Logger, Status, encode_jpeg
from detection_core.storage import files
from detection_core.storage.scratch_folder import ScratchFolder

# Classes of `tensorboard.compat.proto.summary_pb2.DataClass`.
_SCALAR, _TENSOR, _BLOB = 1, 2, 3


class TensorBoardLogger(Logger):
    """Writes event files to the folders `train` and `eval` of a directory, created when first written.

    `tf.summary.scalar`, `image` and `histogram` need the TensorBoard package; this class writes the same
    records without it. On a store that TensorFlow cannot open, the files appear when the training ends or a
    signal stops it.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._scratch = None if files.opened_by_tensorflow(directory) else ScratchFolder()
        self._writers: dict[str, tf.summary.SummaryWriter] = {}

    def log_scalars(self, values: Mapping[str, float], step: int, split: str) -> None:
        """Write numbers of a step."""
        self._write(
            "scalars", _SCALAR, {n: tf.constant(v, tf.float32) for n, v in values.items()}, step, split
        )

    def log_images(self, images: Mapping[str, np.ndarray], step: int, split: str) -> None:
        """Write pictures of a step, as JPEG."""
        tensors = {}
        for name, image in images.items():
            height, width = image.shape[:2]
            tensors[name] = tf.constant([str(width).encode(), str(height).encode(), encode_jpeg(image)])
        self._write("images", _BLOB, tensors, step, split)

    def log_histograms(self, values: Mapping[str, Histogram], step: int) -> None:
        """Write histograms, as rows of lower edge, upper edge and count."""
        tensors = {
            name: tf.constant(np.stack([h.edges[:-1], h.edges[1:], h.counts], axis=1), tf.float64)
            for name, h in values.items()
        }
        self._write("histograms", _TENSOR, tensors, step, "train")

    def close(self, status: Status) -> None:
        """Close the event files."""
        for writer in self._writers.values():
            writer.close()
        if self._scratch is not None:
            files.copy_tree(self._scratch.name, self._directory)

    def _write(
        self, plugin: str, data_class: int, tensors: Mapping[str, tf.Tensor], step: int, split: str
    ) -> None:
        if split not in self._writers:
            folder = files.join(self._scratch.name if self._scratch else self._directory, split)
            self._writers[split] = tf.summary.create_file_writer(folder)
        writer = self._writers[split]
        data = tf.compat.v1.SummaryMetadata.PluginData(plugin_name=plugin)
        metadata = tf.compat.v1.SummaryMetadata(plugin_data=data, data_class=data_class)
        with writer.as_default(step=step):
            for name, tensor in tensors.items():
                tf.summary.write(name, tensor, metadata=metadata)
        writer.flush()
