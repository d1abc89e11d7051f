"""Facts about the ImageNet backbones that Keras publishes in `tf_keras.applications`."""

import dataclasses

from detection_core.bounded.plain_yaml import module_table
from detection_core.errors import ConfigError
from detection_core.zoo.cache import PublishedFile

IMAGENET = "imagenet"
"""Value of a config's `fine_tune_checkpoint` that selects these backbones."""
_STORE = "https://storage.googleapis.com"


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishedBackbone:
    """A classifier whose layers can initialise a backbone.

    Attributes:
        backbone: its name in `builders.backbones.BACKBONES`.
        application: name of the function of `tf_keras.applications` that builds it.
        address: of its weights without the classifying layers, below the host of Keras' files.
        digest: the publisher's checksum, see `PublishedFile`.
        depth_multiplier: of its channels.
        minimalistic: a MobileNetV3 without squeeze-and-excitation, hard swish and kernels of 5x5.
    """

    backbone: str
    application: str
    address: str
    digest: str = ""
    depth_multiplier: float = 1.0
    minimalistic: bool = False

    @property
    def file(self) -> PublishedFile:
        """Return its weights."""
        return PublishedFile(address=f"{_STORE}/{self.address}", folder=IMAGENET, digest=self.digest)

    @property
    def name(self) -> str:
        """Return its unique name, for example `imagenet:mobilenet_v2:0.5`."""
        multiplier = f":{self.depth_multiplier:g}" if self.depth_multiplier != 1 else ""
        return f"{IMAGENET}:{self.backbone}{multiplier}"


PUBLISHED_BACKBONES = tuple(PublishedBackbone(**entry) for entry in module_table(__file__))
"""Those of keras_backbones.yaml."""


def find_backbone(backbone: str, depth_multiplier: float = 1.0) -> PublishedBackbone:
    """Return the published weights for a backbone.

    `backbone` is a name in `builders.backbones.BACKBONES`. `depth_multiplier` was a float32 in the config.

    Raises:
        ConfigError: when nothing is published for it.
    """
    same = [found for found in PUBLISHED_BACKBONES if found.backbone == backbone]
    near = [found for found in same if abs(found.depth_multiplier - depth_multiplier) < 1e-6]
    if near:
        return near[0]
    if same:
        expected = f"a depth_multiplier of {', '.join(f'{found.depth_multiplier:g}' for found in same)}"
        shown = f"{depth_multiplier:g}"
    else:
        names = dict.fromkeys(found.backbone for found in PUBLISHED_BACKBONES)
        expected, shown = f"a backbone that is published trained on ImageNet ({', '.join(names)})", backbone
    raise ConfigError(
        f"expected {expected}, found {shown or 'none'}; change it, or start from something else",
        where="train_config.fine_tune_checkpoint",
    )
