"""Facts about the ImageNet backbones that Keras publishes in `tf_keras.applications`."""

import dataclasses

from detection_core.errors import ConfigError
from detection_core.zoo.cache import PublishedFile

IMAGENET = "imagenet"
"""Value of a config's `fine_tune_checkpoint` that selects these backbones."""
_STORE = "https://storage.googleapis.com"
_SIDE = 224
"""Side of the images that the MobileNets' published variants were trained on."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PublishedBackbone:
    """A classifier whose layers can initialise a backbone.

    Attributes:
        backbone: its name in `builders.backbones.BACKBONES`.
        depth_multiplier: of its channels.
        application: name of the function of `tf_keras.applications` that builds it.
        file: its weights without the classifying layers.
        minimalistic: a MobileNetV3 without squeeze-and-excitation, hard swish and kernels of 5x5.
    """

    backbone: str
    depth_multiplier: float
    application: str
    file: PublishedFile
    minimalistic: bool = False

    @property
    def name(self) -> str:
        """Return its unique name, for example `imagenet:mobilenet_v2:0.5`."""
        multiplier = f":{self.depth_multiplier:g}" if self.depth_multiplier != 1 else ""
        return f"{IMAGENET}:{self.backbone}{multiplier}"


def _published(
    backbone: str,
    application: str,
    address: str,
    *,
    digest: str = "",
    depth_multiplier: float = 1.0,
    minimalistic: bool = False,
) -> PublishedBackbone:
    return PublishedBackbone(
        backbone=backbone,
        depth_multiplier=depth_multiplier,
        application=application,
        file=PublishedFile(address=f"{_STORE}/{address}", folder=IMAGENET, digest=digest),
        minimalistic=minimalistic,
    )


_KERAS = "tensorflow/keras-applications"
_RESNETS = {
    50: "4d473c1dd8becc155b73f8504c6f6626",
    101: "88cf7a10940856eca736dc7b7e228a21",
    152: "ee4c566cf9a93f14d82f913c2dc6dd0c",
}
_EFFICIENT_NETS = (
    "50bc09e76180e00e4465e1a485ddc09d",
    "74c4e6b3e1f6a1eea24c589628592432",
    "111f8e2ac8aa800a7a99e3239f7bfb39",
    "af6d107764bb5b1abb91932881670226",
    "ebc24e6d6c33eaebbd558eafbeedf1ba",
    "38879255a25d3c92d5e44e04ae6cec6f",
    "9ecce42647a20130c1f39a5d4cb75743",
    "cbcfe4450ddf6f3ad90b1b398090fe4a",
)
_MOBILENETS_1 = {0.25: "2_5", 0.5: "5_0", 0.75: "7_5", 1.0: "1_0"}
_MOBILENETS_2 = (0.35, 0.5, 0.75, 1.0, 1.3, 1.4)
# Size, multiplier and whether it is minimalistic -> digest.
_MOBILENETS_3 = {
    ("large", 0.75, False): "40af19a13ebea4e2ee0c676887f69a2e",
    ("large", 1.0, False): "07fb09a5933dd0c8eaafa16978110389",
    ("large", 1.0, True): "ec5221f64a2f6d1ef965a614bdae7973",
    ("small", 0.75, False): "ebdb5cc8e0b497cd13a7c275d475c819",
    ("small", 1.0, False): "d3e8ec802a04aa4fc771ee12a9a9b836",
    ("small", 1.0, True): "cde8136e733e811080d9fcd8a252f7e4",
}


def _mobilenet_v3(size: str, multiplier: float, minimalistic: bool, digest: str) -> PublishedBackbone:
    kind = f"{size}_minimalistic" if minimalistic else size
    return _published(
        f"mobilenet_v3_{kind}",
        f"MobileNetV3{size.capitalize()}",
        f"{_KERAS}/mobilenet_v3/weights_mobilenet_v3_{kind}_{_SIDE}_{multiplier}_float_no_top_v2.h5",
        digest=f"md5:{digest}",
        depth_multiplier=multiplier,
        minimalistic=minimalistic,
    )


PUBLISHED_BACKBONES = (
    *(
        _published(
            "mobilenet_v1",
            "MobileNet",
            f"{_KERAS}/mobilenet/mobilenet_{text}_{_SIDE}_tf_no_top.h5",
            depth_multiplier=multiplier,
        )
        for multiplier, text in _MOBILENETS_1.items()
    ),
    *(
        _published(
            "mobilenet_v2",
            "MobileNetV2",
            f"{_KERAS}/mobilenet_v2/mobilenet_v2_weights_tf_dim_ordering_tf_kernels_{multiplier}_{_SIDE}_no_top.h5",
            depth_multiplier=multiplier,
        )
        for multiplier in _MOBILENETS_2
    ),
    *(_mobilenet_v3(*variant, digest) for variant, digest in _MOBILENETS_3.items()),
    *(
        _published(
            f"resnet{layers}_v1",
            f"ResNet{layers}",
            f"{_KERAS}/resnet/resnet{layers}_weights_tf_dim_ordering_tf_kernels_notop.h5",
            digest=f"md5:{digest}",
        )
        for layers, digest in _RESNETS.items()
    ),
    *(
        _published(
            f"efficientnet_b{version}",
            f"EfficientNetB{version}",
            f"keras-applications/efficientnetb{version}_notop.h5",
            digest=f"md5:{digest}",
        )
        for version, digest in enumerate(_EFFICIENT_NETS)
    ),
)


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
