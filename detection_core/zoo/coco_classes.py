"""The classes of COCO 2017, which the published detectors predict."""

from collections.abc import Mapping

from detection_core.bounded.plain_yaml import module_table

COCO_CLASSES: Mapping[int, str] = module_table(__file__)
"""Id to name; the heads have an output for each id up to 90."""
