"""Finds near-duplicate images."""

from detection_core.optional.near_duplicates.near_duplicates import check_near_copies
from detection_core.optional.near_duplicates.perceptual_hash import HashList, hash_image_file

__all__ = ["HashList", "check_near_copies", "hash_image_file"]
