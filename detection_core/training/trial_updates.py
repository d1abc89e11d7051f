"""A batch that does not fit the memory, and updates that are made to see in how many parts it would."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator

import tensorflow as tf

from detection_core.errors import ConfigError, as_user_error
from detection_core.optimizers.optimization import Optimization
from detection_core.training.distribution import distributed
from detection_core.training.loop_options import TrainOptions
from detection_core.training.step import Losses, TrainableModel, TrainState, compile_steps

# The line that counts in TensorFlow's messages, which begin with other ones.
_MEMORY = re.compile(
    r"(OOM|[Oo]ut of memory|failed to allocate|OUT_OF_MEMORY|STATUS_ALLOC_FAILED)[^\n]{0,120}"
)
# CUDA's own names. Where a library has no memory to work in, TensorFlow says that it found no algorithm, or
# that something internal went wrong: https://github.com/tensorflow/tensorflow/issues/60713 has the text.
_OF_CUDA = re.compile(r"(CUDNN|CUBLAS|CUSOLVER|CUSPARSE)_STATUS_ALLOC_FAILED|CUDA_ERROR_OUT_OF_MEMORY")
_KINDS_OF_CUDA = (tf.errors.NotFoundError, tf.errors.InternalError, tf.errors.UnknownError)


class BatchTooLargeError(ConfigError):
    """A batch that does not fit the memory in as many parts as it was computed in."""


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether there was no memory for a tensor; TensorFlow has the same error for a full disk."""
    if isinstance(error, _KINDS_OF_CUDA):
        return _OF_CUDA.search(str(error)) is not None
    kinds = (MemoryError, tf.errors.ResourceExhaustedError)
    return isinstance(error, kinds) and as_user_error(error) is None


def too_large(error: BaseException, options: TrainOptions) -> BatchTooLargeError:
    """Return the error for a batch that memory was not enough for.

    Args:
        error: what TensorFlow raised.
        options: of the training; how many parts the batch had is read.
    """
    parts = options.gradient_accumulation_steps
    images = f"{options.batch_size} images" + (f" in {parts} parts" if parts > 1 else "")
    found = _MEMORY.search(str(error))
    reason = found[0] if found else type(error).__name__
    return BatchTooLargeError(
        f"expected a batch that the memory holds, found {images}, which it does not ({reason})",
        where="train_config.batch_size",
    )


def equal_parts(parts: int, images: int) -> int:
    """Return the least number of equal parts of `images` that is at least `parts`."""
    return next((n for n in range(parts, images) if images % n == 0), max(1, images))


def more_parts(parts: int, images: int) -> Iterator[int]:
    """Give rising numbers of equal parts, each at least twice the one before; the last is of one image each.

    Args:
        parts: those that are too few.
        images: of a batch.
    """
    while parts < images:
        parts = equal_parts(2 * parts, images)
        yield parts


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialUpdates:
    """Updates of a model that is set back after each.

    Attributes:
        model: to make updates of.
        make_dataset: as `run_training` has it.
        optimization: makes the optimizer and its learning rate.
        options: of the training.
        step: global step, where the model depends on it.
        reset: sets the model's weights back, and gives memory back.
        losses: of the images that need most; None: the model's own.
    """

    model: TrainableModel
    make_dataset: Callable[[int], tf.data.Dataset]
    optimization: Callable[[], Optimization]
    options: TrainOptions
    step: tf.Variable | None
    reset: Callable[[], None]
    losses: Losses | None = None

    def least_parts(self, above: int) -> int:
        """Return the least number of parts, more than given, with which updates go through; 0: with none.

        Call it in the scope of the training's strategy.
        """
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        numbers = more_parts(above, self.options.batch_size // replicas)
        return next(filter(self._goes_through, numbers), 0)

    def _goes_through(self, parts: int) -> bool:
        """Make two updates: the first one makes what the second finds there."""
        try:
            self._update(parts)
        except (MemoryError, tf.errors.OpError) as error:
            if not is_out_of_memory(error):
                raise
            return False
        finally:
            self.reset()
        return True

    def _update(self, parts: int) -> None:
        options = dataclasses.replace(self.options, gradient_accumulation_steps=parts, steps_per_call=1)
        state = TrainState(self.model, self.optimization(), options, self.step)
        state = state.with_losses(self.losses or state.losses)
        update = compile_steps(state, options, lambda outputs: None)
        batches = iter(distributed(self.make_dataset, 0))
        for _ in itertools.repeat(None, 2):
            outputs = update(batches, tf.constant(1))
        outputs.learning_rate.numpy()  # wait for the device
