"""Targets of anchors: class, box and their weights, for a batch at once; https://arxiv.org/abs/1506.01497."""

import dataclasses
from typing import NamedTuple

import tensorflow as tf

from detection_core.ops.iou import Similarity
from detection_core.parts.box_coders import BoxCoder
from detection_core.parts.matchers import UNMATCHED, Matcher
from detection_core.structures import GroundTruth


class AnchorTargets(NamedTuple):
    """Targets for the losses of an anchor-based detector.

    Attributes:
        class_targets: float32 [B, A, C + 1], background first.
        class_weights: float32 [B, A, 1] or [B, A, C + 1], broadcast against class_targets.
        box_targets: float32 [B, A, code size], encoded; NaN where a keypoint is missing.
        box_weights: float32 [B, A].
        matched: int32 [B, A], row of the ground truth, -1 unmatched, -2 ignored.
        class_columns: int32 [B, A], the one column of class_targets that is 1, -1 where all are 0. None if
            class_targets may have other values.
    """

    class_targets: tf.Tensor
    class_weights: tf.Tensor
    box_targets: tf.Tensor
    box_weights: tf.Tensor
    matched: tf.Tensor
    class_columns: tf.Tensor | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnchorTargetAssigner:
    """Matches anchors with ground truth and computes classification and box targets.

    Padded rows of the ground truth never match. A row of weight 0 is not forced onto an anchor. An anchor
    that is similar enough still matches it, and then counts neither as positive nor as negative.

    Attributes:
        similarity: measure of a box and an anchor.
        matcher: assigns rows by similarity.
        box_coder: encodes the box targets.
        num_classes: C, without background.
        negative_class_weight: classification weight of anchors without an object.
        add_background_class: whether class targets have a background column before the C classes.
        encode_background_as_zeros: whether anchors without an object have zeros in all columns, rather than
            a one in the background column.
    """

    similarity: Similarity
    matcher: Matcher
    box_coder: BoxCoder
    num_classes: int
    negative_class_weight: float = 1.0
    add_background_class: bool = True
    encode_background_as_zeros: bool = False

    @property
    def _unmatched_column(self) -> int:
        # one_hot returns zeros for -1.
        return 0 if self.add_background_class and not self.encode_background_as_zeros else -1

    @property
    def target_columns(self) -> int:
        """Columns of the class targets: C, or C + 1 with a background column."""
        return self.num_classes + int(self.add_background_class)

    def match(self, anchors: tf.Tensor, truth: GroundTruth) -> tf.Tensor:
        """Match each anchor with an object: int32 [B, A], row of the ground truth, -1 unmatched, -2 ignored.

        Anchors are float32 [A, 4] shared by all images, or [B, A, 4] per image, in the frame of the boxes.
        """
        # Shared anchors keep one row, which the similarity broadcasts.
        columns = anchors if len(anchors.shape) == 3 else anchors[tf.newaxis]
        # Rows after the last one that any image uses are skipped, so padding to a fixed size costs nothing.
        used = tf.reduce_max(tf.where(truth.valid, tf.range(tf.shape(truth.valid)[1]) + 1, 0))
        used = tf.maximum(used, 0)
        # Adding -inf to padding rows costs half as much as selecting it.
        absent = tf.where(truth.valid, 0.0, -float("inf"))

        def similarity_of(row: tf.Tensor) -> tf.Tensor:
            boxes = tf.gather(truth.boxes, row, axis=1)[:, tf.newaxis, :]
            similarity = self.similarity(boxes, columns)[:, 0, :]
            return similarity + tf.gather(absent, row, axis=1)[:, tf.newaxis]

        valid = (truth.valid & (truth.weights > 0.0))[:, :used]
        matched = self.matcher.match_rows(similarity_of, valid, tf.shape(anchors)[-2])
        return tf.ensure_shape(matched, [truth.boxes.shape[0], anchors.shape[-2]])

    def assign(self, anchors: tf.Tensor, truth: GroundTruth) -> AnchorTargets:
        """Compute the targets of a batch; anchors are as for `match`.

        Returns:
            The targets; class_weights is float32 [B, A, 1], one weight for all columns.
        """
        with tf.name_scope("assign_anchor_targets"):
            matched = tf.stop_gradient(self.match(anchors, truth))
            positive = matched >= 0
            weights = gather_matched(truth.weights, matched, positive)
            negative_weight = tf.where(matched == UNMATCHED, self.negative_class_weight, 0.0)
            class_weights = tf.where(positive, weights, negative_weight)
            class_weights *= class_factors(truth, matched)
            columns = self._class_columns(truth, matched, positive)
            return AnchorTargets(
                class_targets=self._class_targets(truth, matched, positive, columns),
                class_weights=class_weights[..., tf.newaxis],
                box_targets=self.box_targets(anchors, truth, matched),
                box_weights=weights,
                matched=matched,
                class_columns=columns,
            )

    def _class_columns(self, truth: GroundTruth, matched: tf.Tensor, positive: tf.Tensor) -> tf.Tensor | None:
        if truth.class_scores.shape[-1] != 0:
            return None
        columns = gather_matched(truth.classes, matched, positive) + int(self.add_background_class)
        columns = tf.where(columns < self.target_columns, columns, -1)
        return tf.where(positive, columns, self._unmatched_column)

    def _class_targets(
        self, truth: GroundTruth, matched: tf.Tensor, positive: tf.Tensor, columns: tf.Tensor | None
    ) -> tf.Tensor:
        if columns is None:
            scores = self.with_background_column(truth.class_scores)
            unmatched = tf.one_hot(self._unmatched_column, self.target_columns)
            return tf.where(positive[..., tf.newaxis], gather_matched(scores, matched, positive), unmatched)
        # A compiled step prunes them if the loss uses the columns.
        return tf.one_hot(columns, self.target_columns, dtype=tf.float32)

    def with_background_column(self, scores: tf.Tensor) -> tf.Tensor:
        """Convert class scores, float32 [B, G, C or C + 1], to the columns of the class targets.

        Raises:
            ValueError: for any other number of columns.
        """
        missing = self.target_columns - scores.shape[-1]
        if missing not in (0, int(self.add_background_class)):
            raise ValueError(
                f"expected class scores of {self.num_classes} classes, found {scores.shape[-1]} columns"
            )
        return tf.pad(scores, [[0, 0], [0, 0], [missing, 0]]) if missing else scores

    def box_targets(self, anchors: tf.Tensor, truth: GroundTruth, matched: tf.Tensor) -> tf.Tensor:
        """Encode the matched box of each anchor, with its keypoints if the coder has them.

        Anchors are as for `match`; matched is int32 [B, A].

        Returns:
            float32 [B, A, code size], zeros where there is no match, NaN where a keypoint is missing.

        Raises:
            ValueError: when the coder expects another number of keypoints.
        """
        positive = matched >= 0
        # Anchors without an object encode themselves, which avoids logarithms of zero.
        chosen = tf.where(positive[..., tf.newaxis], gather_matched(truth.boxes, matched, positive), anchors)
        keypoints = None
        if expected := self.box_coder.num_keypoints:
            if truth.keypoints.shape[-2] != expected:
                found = truth.keypoints.shape[-2]
                raise ValueError(f"expected {expected} keypoints of each object, found {found}")
            keypoints = gather_matched(truth.keypoints, matched, positive)
        codes = self.box_coder.encode(chosen, anchors, keypoints)
        return tf.where(positive[..., tf.newaxis], codes, 0.0)


def gather_matched(rows: tf.Tensor, matched: tf.Tensor, positive: tf.Tensor) -> tf.Tensor:
    """Gather the matched row of each anchor, [B, A, ...], and zeros where there is none.

    The rows are [B, G, ...], matched is int32 [B, A], and positive is bool [B, A].
    """
    # The leading zero row is for anchors without an object, also in a batch without any.
    padding = [[0, 0], [1, 0]] + [[0, 0]] * (len(rows.shape) - 2)
    return tf.gather(tf.pad(rows, padding), tf.where(positive, matched + 1, 0), batch_dims=1)


def class_factors(truth: GroundTruth, matched: tf.Tensor) -> tf.Tensor:
    """Return the class weight of anchors' objects, float32 [B, A], 1 where `matched`, [B, A], has none."""
    positive = matched >= 0
    return tf.where(positive, gather_matched(truth.class_weights, matched, positive), 1.0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConfidenceTargetAssigner(AnchorTargetAssigner):
    """Gives verified classes full weight and all others a small one, as for Open Images.

    Image-level verification: https://arxiv.org/abs/1811.00982.

    A confidence above 0 verifies that the object is of the class, below 0 that it is not; both count in full.
    At 0 the class was not verified and counts as a negative of small weight.

    Attributes:
        implicit_class_weight: weight of a class that was not verified.
    """

    implicit_class_weight: float = 1.0

    def assign(self, anchors: tf.Tensor, truth: GroundTruth) -> AnchorTargets:
        """Compute the targets of a batch; anchors are as for `match`, class_weights is float32 [B, A, C + 1].

        An object's confidences are its class scores times its confidence. An object without class scores was
        verified for its own class only.
        """
        if truth.class_scores.shape[-1] != 0:
            scores = truth.class_scores[..., -self.num_classes :]
        else:
            scores = tf.one_hot(truth.classes, self.num_classes, dtype=tf.float32)
        confidences = scores * truth.confidences[..., tf.newaxis]
        matched = tf.stop_gradient(self.match(anchors, truth))
        matched_confidences = gather_matched(confidences, matched, matched >= 0)
        targets = tf.cast(matched_confidences > 0.0, tf.float32)
        positive = tf.reduce_max(targets, axis=-1, keepdims=True)
        weights = tf.where(matched_confidences != 0.0, 1.0, self.implicit_class_weight)
        if self.target_columns > self.num_classes:
            # Positives count in the background column; unmatched anchors do not, as they were not verified.
            targets = tf.concat([1.0 - positive, targets], axis=-1)
            weights = tf.concat([tf.where(positive > 0.0, 1.0, self.implicit_class_weight), weights], axis=-1)
        box_weights = positive[..., 0]
        return AnchorTargets(
            class_targets=targets,
            class_weights=weights * class_factors(truth, matched)[..., tf.newaxis],
            box_targets=self.box_targets(anchors, truth, matched),
            box_weights=box_weights,
            matched=matched,
        )
