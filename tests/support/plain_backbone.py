"""A backbone of five convolutions, traced in a third of the time of the smallest real one."""

import os
from pathlib import Path
from typing import Any

from detection_core.builders.backbones import BackboneEntry, register_backbone
from detection_core.config.messages.extractors import Extractor, register_extractor
from detection_core.parts.backbones.base import Endpoints
from detection_core.parts.backbones.mobilenet import DEFAULT_HYPERPARAMS

PLAIN = "ssd_tests_plain_fpn"
"""`feature_extractor.type` in this process; child processes know it only where they import this module."""
PLAIN_BIFPN = "ssd_tests_plain_bifpn"
"""The same with a bidirectional pyramid, of levels 3 to 7."""


def _build(inputs: Any, layers: Any, shape: Any) -> Endpoints:
    features, levels = inputs, {}
    for level in range(1, 6):
        name = f"backbone_conv_{level}"
        channels = max(int(32 * level * shape.depth_multiplier), shape.min_depth)
        features = layers.norm_activation(
            layers.conv(name, channels, 3, stride=2, use_bias=False)(features), name
        )
        levels[level] = features
    return Endpoints(levels)


register_backbone(
    "tests_plain",
    BackboneEntry(
        family="tests_plain", preprocessing="unit_range", hyperparams=DEFAULT_HYPERPARAMS, build=_build
    ),
)
register_extractor(PLAIN, Extractor(backbone="tests_plain", neck="fpn"))
register_extractor(PLAIN_BIFPN, Extractor(backbone="tests_plain", neck="bifpn"))


def known_to_processes(folder: Path) -> str:
    """Return a PYTHONPATH with which child processes import this module as an installed extension."""
    metadata = folder / "plain_backbone-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plain-backbone\nVersion: 1\n")
    entry = "plain = tests.support.plain_backbone:register"
    (metadata / "entry_points.txt").write_text(f"[detflow.extensions]\n{entry}\n")
    return os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])


def register() -> None:
    """Do nothing: the import has registered the parts."""
