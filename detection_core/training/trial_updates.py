"""Out-of-memory errors, and trial updates that find how many parts a batch must be split into."""

import dataclasses
import re
from collections.abc import Callable, Iterator

import tensorflow as tf

from detection_core.errors import ConfigError, as_user_error
from detection_core.optimizers.optimization import Optimization
from detection_core.training.distribution import distributed
from detection_core.training.loop_options import TrainOptions
from detection_core.training.step import Losses, TrainableModel, TrainState, compile_steps

# The decisive line of TensorFlow's messages, which other lines precede.
_MEMORY = re.compile(
    r"(OOM|[Oo]ut of memory|failed to allocate|OUT_OF_MEMORY|STATUS_ALLOC_FAILED)[^\n]{0,120}"
)
# CUDA's own names. Where a library lacks workspace memory, TensorFlow reports a missing algorithm or an
# internal error instead: https://github.com/tensorflow/tensorflow/issues/60713 has the text.
_OF_CUDA = re.compile(r"(CUDNN|CUBLAS|CUSOLVER|CUSPARSE)_STATUS_ALLOC_FAILED|CUDA_ERROR_OUT_OF_MEMORY")
_KINDS_OF_CUDA = (tf.errors.NotFoundError, tf.errors.InternalError, tf.errors.UnknownError)


class BatchTooLargeError(ConfigError):
    """A batch that does not fit in memory with its number of parts."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory for a tensor ran out; TensorFlow raises the same class for a full disk."""
    if isinstance(error, _KINDS_OF_CUDA):
        return _OF_CUDA.search(str(error)) is not None
    return isinstance(error, (MemoryError, tf.errors.ResourceExhaustedError)) and as_user_error(error) is None


def too_large(error: BaseException, options: TrainOptions) -> BatchTooLargeError:
    """Return the error for a batch that does not fit in memory with the options' number of parts."""
    parts = options.gradient_accumulation_steps
    images = f"{options.batch_size} images" + (f" in {parts} parts" if parts > 1 else "")
    found = _MEMORY.search(str(error))
    reason = found[0] if found else type(error).__name__
    return BatchTooLargeError(
        f"expected a batch that fits into memory, found {images}, which do not fit ({reason})",
        where="train_config.batch_size",
    )


def equal_parts(parts: int, images: int) -> int:
    """Return the smallest number of equal parts of `images` that is at least `parts`."""
    return next((n for n in range(parts, images) if images % n == 0), max(1, images))


def more_parts(parts: int, images: int) -> Iterator[int]:
    """Yield rising numbers of equal parts, each at least doubled; the last has one image per part."""
    while parts < images:
        parts = equal_parts(2 * parts, images)
        yield parts


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialUpdates:
    """Trial updates of a model, which is reset after each.

    Attributes:
        model: to update.
        make_dataset: as in `run_training`.
        optimization: creates the optimizer and its learning rate.
        options: of the training.
        step: global step, if the model depends on it.
        reset: resets the model's weights and frees memory.
        losses: of the images that need most memory; None: the model's own.
    """

    model: TrainableModel
    make_dataset: Callable[[int], tf.data.Dataset]
    optimization: Callable[[], Optimization]
    options: TrainOptions
    step: tf.Variable | None
    reset: Callable[[], None]
    losses: Losses | None = None

    def least_parts(self, above: int) -> int:
        """Return the smallest number of parts above `above` with which updates succeed; 0: none.

        Call it in the scope of the training's strategy.
        """
        replicas = tf.distribute.get_strategy().num_replicas_in_sync
        numbers = more_parts(above, self.options.batch_size // replicas)
        return next(filter(self._goes_through, numbers), 0)

    def _goes_through(self, parts: int) -> bool:
        """Make two updates: the second runs with the memory that the first one allocated."""
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
        for _ in range(2):
            outputs = update(batches, tf.constant(1))
        outputs.learning_rate.numpy()  # wait for the device
