"""Backbones of CenterNet, whose layers have object paths in the Object Detection API's checkpoints.

Hourglass networks, https://arxiv.org/abs/1603.06937: an encoder-decoder halves the map several times and adds
each finer map on the way back. Hourglass-104 has two of them in a row, and each has its own heads.

ResNets as tf_keras.applications builds them, https://arxiv.org/abs/1512.03385 and 1603.05027. They differ
from `parts.backbones.resnet_v1` in biases, in padding and in where a stage halves its map. So published
weights of one do not fit the other.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf
import tf_keras

from detection_core.bounded.plain_yaml import module_table
from detection_core.parts.layers.layer_hyperparams import BatchNormOptions, LayerHyperparams
from detection_core.parts.layers.network_layers import NetworkLayers


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrackedLayers:
    """Creates and calls layers, and notes the object path of each one.

    Attributes:
        layers: creates the layers.
        path: object path of the layers' parent, below the model.
        scope: start of the layers' names.
        paths: filled while layers are created: name of a layer with weights -> its object path.
    """

    layers: NetworkLayers
    path: str = ""
    scope: str = ""
    paths: dict[str, str] = dataclasses.field(default_factory=dict)

    def under(self, name: str, *, at: str = "") -> "TrackedLayers":
        """Return the layers of a part of the network; `at` is its object path if it is not the name."""
        return dataclasses.replace(self, path=self._path(at or name), scope=f"{self.layer_name(name)}_")

    def with_hyperparams(self, hyperparams: LayerHyperparams) -> "TrackedLayers":
        """Return the same with other hyperparameters."""
        return dataclasses.replace(self, layers=self.layers.under(hyperparams))

    def layer_name(self, name: str) -> str:
        """Return the name of a layer of this part."""
        return f"{self.scope}{name.replace('/', '_')}"

    def conv(
        self,
        features: tf.Tensor,
        name: str,
        channels: int,
        kernel: int,
        *,
        stride: int = 1,
        use_bias: bool = True,
        bias: float = 0.0,
        at: str = "",
    ) -> tf.Tensor:
        """Apply a convolution; with a stride, padding does not depend on the input's size."""
        layers = self.layers.under(self.layers.hyperparams, explicit_padding=stride > 1)
        own = self._tracked(name, at)
        layer = layers.conv(own, channels, kernel, stride=stride, use_bias=use_bias, bias=bias, plain=True)
        return layer(features)

    def separable(
        self, features: tf.Tensor, name: str, channels: int, kernel: int, *, at: str = ""
    ) -> tf.Tensor:
        """Apply a depthwise and a 1x1 convolution with a bias, which checkpoints store as one layer."""
        own = self.layer_name(name)
        self.paths[f"{own}_depthwise"] = self.paths[f"{own}_pointwise"] = self._path(at or name)
        return self.layers.separable(own, channels, kernel, use_bias=True, plain=(True, True))(features)

    def doubled(self, features: tf.Tensor, name: str, channels: int, *, at: str = "") -> tf.Tensor:
        """Apply a transposed 3x3 convolution that doubles rows and columns."""
        return self.layers.doubling(self._tracked(name, at), channels)(features)

    def norm(self, features: tf.Tensor, name: str, *, at: str = "") -> tf.Tensor:
        """Apply a batch normalisation."""
        return self.layers.norm(self._tracked(name, at))(features)

    def relu(self, features: tf.Tensor, name: str) -> tf.Tensor:
        """Apply a ReLU."""
        return tf_keras.layers.ReLU(name=f"{self.layer_name(name)}_act")(features)

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}" if self.path else name

    def _tracked(self, name: str, at: str) -> str:
        own = self.layer_name(name)
        self.paths[own] = self._path(at or name)
        return own


HOURGLASS_HYPERPARAMS = LayerHyperparams(
    batch_norm=BatchNormOptions(momentum=0.1, epsilon=1e-5, scale=True, synchronized=True), activation="relu"
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class HourglassOptions:
    """Shape of a network.

    Attributes:
        stem_channels: of the first convolution.
        channels: of each scale, finest first.
        blocks: residual blocks of each scale.
        stacks: encoder-decoders in a row.
    """

    stem_channels: int
    channels: Sequence[int]
    blocks: Sequence[int]
    stacks: int = 1


HOURGLASSES: Mapping[int, HourglassOptions] = {
    number: HourglassOptions(**shape) for number, shape in module_table(__file__).items()
}
"""Number of layers -> shape."""


def hourglass(inputs: tf.Tensor, layers: TrackedLayers, options: HourglassOptions) -> list[tf.Tensor]:
    """Build the network on float32 [B, H, W, 3].

    Returns:
        The map of each stack, [B, H / 4, W / 4, channels].
    """
    width = options.channels[0]
    stem = layers.under("downsample_input")
    features = _conv(inputs, stem.under("conv_block"), options.stem_channels, 7, stride=2)
    features = _residual(features, stem.under("residual_block"), width, stride=2, projected=True)
    maps: list[tf.Tensor] = []
    for index in range(options.stacks):
        inner = _encoder_decoder(
            features, layers.under(f"hourglass_network/{index}"), options.channels, options.blocks
        )
        maps.append(_conv(inner, layers.under(f"output_conv/{index}"), width, 3))
        if index + 1 < options.stacks:
            before = _conv(features, layers.under(f"intermediate_conv1/{index}"), width, 1, activate=False)
            after = _conv(maps[-1], layers.under(f"intermediate_conv2/{index}"), width, 1, activate=False)
            mixed = layers.relu(_add(before, after, layers, f"mix/{index}/add"), f"mix/{index}")
            features = _residual(mixed, layers.under(f"intermediate_residual/{index}"), width)
    return maps


def _add(first: tf.Tensor, second: tf.Tensor, layers: TrackedLayers, name: str = "sum") -> tf.Tensor:
    return tf_keras.layers.Add(name=layers.layer_name(name))([first, second])


def _conv(
    features: tf.Tensor,
    layers: TrackedLayers,
    channels: int,
    kernel: int,
    *,
    stride: int = 1,
    activate: bool = True,
) -> tf.Tensor:
    """Add a convolution and its normalisation; the padding does not depend on the input's size."""
    features = layers.conv(features, "conv", channels, kernel, stride=stride, use_bias=False)
    features = layers.norm(features, "norm")
    return layers.relu(features, "relu") if activate else features


def _residual(
    features: tf.Tensor, layers: TrackedLayers, channels: int, *, stride: int = 1, projected: bool = False
) -> tf.Tensor:
    """Add a residual block; `projected` puts a convolution on its shortcut."""
    inner = _conv(features, layers.under("conv_block"), channels, 3, stride=stride)
    inner = layers.norm(layers.conv(inner, "conv", channels, 3, use_bias=False), "norm")
    if projected:
        features = _conv(features, layers.under("skip"), channels, 1, stride=stride, activate=False)
    return layers.relu(_add(inner, features, layers, "sum/add"), "relu")


def _blocks(
    features: tf.Tensor,
    layers: TrackedLayers,
    count: int,
    channels: tuple[int, int],
    *,
    stride: int = 1,
    projected: bool = False,
) -> tf.Tensor:
    """Add residual blocks: `channels` are those of all but the last, and of the last."""
    inner, last = channels
    for index in range(count - 1):
        first = index == 0
        features = _residual(
            features,
            layers.under(str(index)),
            inner,
            stride=stride if first else 1,
            projected=first and (stride > 1 or projected),
        )
    stride = stride if count == 1 else 1
    projected = stride > 1 if count == 1 else inner != last
    return _residual(features, layers.under(str(count - 1)), last, stride=stride, projected=projected)


def _encoder_decoder(
    features: tf.Tensor, layers: TrackedLayers, channels: Sequence[int], blocks: Sequence[int]
) -> tf.Tensor:
    """Add the blocks of a scale around those of the coarser ones."""
    own, coarser, count = channels[0], channels[1], blocks[0]
    kept = _blocks(features, layers.under("encoder_block1"), count, (own, own))
    inner = _blocks(
        features,
        layers.under("encoder_block2"),
        count,
        (coarser, coarser),
        stride=2,
        projected=own != coarser,
    )
    if len(channels) > 2:
        inner = _encoder_decoder(inner, layers.under("inner_block/0"), channels[1:], blocks[1:])
    else:
        inner = _blocks(inner, layers.under("inner_block"), blocks[1], (coarser, coarser))
    inner = _blocks(inner, layers.under("decoder_block"), count, (coarser, own))
    enlarged = tf_keras.layers.UpSampling2D(2, name=layers.layer_name("upsample"))(inner)
    return _add(kept, enlarged, layers, "merge/add")


RESNET_HYPERPARAMS = LayerHyperparams(
    batch_norm=BatchNormOptions(momentum=0.99, epsilon=1.001e-5, scale=True), activation="relu"
)
BLOCKS: Mapping[int, tuple[int, ...]] = {
    18: (2, 2, 2, 2),
    34: (3, 4, 6, 3),
    50: (3, 4, 6, 3),
    101: (3, 4, 23, 3),
}
CHANNELS = (64, 128, 256, 512)

Block = Callable[[tf.Tensor, TrackedLayers, int, int, bool], tf.Tensor]
"""(features, layers, channels, stride, whether the shortcut is projected) -> features."""


def resnet_v1(inputs: tf.Tensor, layers: TrackedLayers, depth: int) -> list[tf.Tensor]:
    """Build the backbone on float32 [B, H, W, 3]; return the maps of strides 4, 8, 16 and 32.

    A stage's first block halves the map.
    """
    features = layers.conv(inputs, "stem", 64, 7, stride=2)
    features = _pool(layers.relu(layers.norm(features, "stem_bn"), "stem"), layers)
    return _stages(features, layers, depth, _bottleneck_v1, (1, 2, 2, 2), halving=0)


def resnet_v2(inputs: tf.Tensor, layers: TrackedLayers, depth: int) -> list[tf.Tensor]:
    """Build the backbone of version 2; return the map of stride 32, before the last normalisation."""
    features = _pool(layers.conv(inputs, "stem", 64, 7, stride=2), layers)
    return _stages(features, layers, depth, _bottleneck_v2, (2, 2, 2, 1), halving=-1)[-1:]


def resnet_basic(inputs: tf.Tensor, layers: TrackedLayers, depth: int) -> list[tf.Tensor]:
    """Build the backbone of 18 or 34 layers; return the maps of strides 4, 8, 16 and 32.

    Blocks have two convolutions and normalise before them, as in version 2.
    """
    features = _pool(layers.conv(inputs, "stem", 64, 7, stride=2), layers)
    return _stages(features, layers, depth, _basic, (1, 2, 2, 2), halving=-1)


def _pool(features: tf.Tensor, layers: TrackedLayers) -> tf.Tensor:
    padded = tf_keras.layers.ZeroPadding2D(1, name=layers.layer_name("pool_pad"))(features)
    return tf_keras.layers.MaxPooling2D(3, strides=2, name=layers.layer_name("pool"))(padded)


def _stages(
    features: tf.Tensor,
    layers: TrackedLayers,
    depth: int,
    block: Block,
    strides: tuple[int, ...],
    *,
    halving: int,
) -> list[tf.Tensor]:
    """Build the stages of a backbone; the block at `halving`, 0 or -1, has the stride of its stage."""
    maps: list[tf.Tensor] = []
    for stage, (count, channels, stride) in enumerate(zip(BLOCKS[depth], CHANNELS, strides, strict=True)):
        for index in range(count):
            inner = layers.under(f"block_{stage}_{index}")
            own = stride if index == halving % count else 1
            features = block(features, inner, channels, own, index == 0)
        maps.append(features)
    return maps


def _step(
    features: tf.Tensor,
    layers: TrackedLayers,
    name: str,
    channels: int,
    kernel: int,
    stride: int = 1,
    *,
    use_bias: bool = False,
) -> tf.Tensor:
    """Add a convolution, its normalisation and activation."""
    features = layers.conv(features, name, channels, kernel, stride=stride, use_bias=use_bias)
    return layers.relu(layers.norm(features, f"{name}_bn"), name)


def _bottleneck_v1(
    features: tf.Tensor, layers: TrackedLayers, channels: int, stride: int, projected: bool
) -> tf.Tensor:
    shortcut = features
    if projected:
        shortcut = layers.conv(features, "shortcut", 4 * channels, 1, stride=stride)
        shortcut = layers.norm(shortcut, "shortcut_bn")
    inner = _step(features, layers, "reduce", channels, 1, stride, use_bias=True)
    inner = _step(inner, layers, "spatial", channels, 3, use_bias=True)
    inner = layers.norm(layers.conv(inner, "expand", 4 * channels, 1), "expand_bn")
    return layers.relu(_add(shortcut, inner, layers), "add")


def _bottleneck_v2(
    features: tf.Tensor, layers: TrackedLayers, channels: int, stride: int, projected: bool
) -> tf.Tensor:
    active, shortcut = _entry(features, layers, 4 * channels, stride, projected)
    inner = _step(active, layers, "reduce", channels, 1)
    inner = _step(inner, layers, "spatial", channels, 3, stride)
    return _add(shortcut, layers.conv(inner, "expand", 4 * channels, 1), layers)


def _basic(
    features: tf.Tensor, layers: TrackedLayers, channels: int, stride: int, projected: bool
) -> tf.Tensor:
    active, shortcut = _entry(features, layers, channels, stride, projected)
    inner = _step(active, layers, "first", channels, 3)
    return _add(shortcut, _step(inner, layers, "second", channels, 3, stride), layers)


def _entry(
    features: tf.Tensor, layers: TrackedLayers, channels: int, stride: int, projected: bool
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the normalised input of a block, and its shortcut."""
    active = layers.relu(layers.norm(features, "preact_bn"), "preact")
    if projected:
        return active, layers.conv(active, "shortcut", channels, 1)
    if stride == 1:
        return active, features
    name = layers.layer_name("subsample")
    return active, tf_keras.layers.MaxPooling2D(1, strides=stride, name=name)(features)
