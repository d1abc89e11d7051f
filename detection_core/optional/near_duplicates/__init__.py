"""Finds near-duplicate images."""

from detection_core.optional.near_duplicates.near_duplicates import MAX_DISTANCE, check_near_copies
from detection_core.optional.near_duplicates.perceptual_hash import HashList, hash_image_file, hash_picture

__all__ = ["MAX_DISTANCE", "HashList", "check_near_copies", "hash_image_file", "hash_picture"]
