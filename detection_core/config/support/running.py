"""What becomes of the fields of training, evaluation and input messages."""

from __future__ import annotations

from collections.abc import Mapping

from detection_core.config.support.entry import Support

_QUEUE = "input is a tf.data pipeline, not a queue"
_THREADS = "tf.data spreads the work over threads by itself"
_TF1_LOOP = "it belongs to the evaluation loop of TensorFlow 1; one evaluation follows each training here"
_CONTEXT = "context features are not used by any model here"

_TRAIN = Support(
    (
        "tasks.train_options",
        "tasks.starting_weights",
        "builders.inputs",
        "builders.label_targets",
        "tasks.train",
    ),
    without_effect={
        "sync_replicas": "replicas always update together",
        "startup_delay_steps": "there are no asynchronous workers to delay",
        "replicas_to_aggregate": "all replicas are aggregated",
        "batch_queue_capacity": _QUEUE,
        "num_batch_queue_threads": _QUEUE,
        "prefetch_queue_capacity": _QUEUE,
        "run_fine_tune_checkpoint_dummy_computation": "the variables exist as soon as the model is built",
        "unpad_groundtruth_tensors": "padded ground truth is masked, which comes to the same",
        "retain_original_images": "no images are written to the summaries",
        "use_bfloat16": "it is for TPUs; training is in float32",
    },
)

_EVAL = Support(
    ("tasks.evaluate_options", "config.check_evaluation", "tasks.train"),
    without_effect={
        "batch_size": "images are measured one at a time, as the exported detector sees them",
        "num_examples": "every image of the split is measured",
        "eval_interval_secs": _TF1_LOOP,
        "max_evals": _TF1_LOOP,
        "save_graph": _TF1_LOOP,
        "eval_master": _TF1_LOOP,
        "visualization_export_dir": "pictures are written into the evaluation's own folder",
        "export_path": "metrics are written into the evaluation's own folder",
        "keep_image_id_for_visualization_export": "pictures/index.json names the image of each picture",
        "retain_original_images": "images are measured as they were recorded",
        "keypoint_edge": "keypoints are not detected, so no lines are drawn between them",
        "use_dummy_loss_in_eval": "an evaluation computes no loss",
    },
    refused={
        "parameterized_metric": "keypoints are not measured; remove it",
        "ignore_groundtruth": "measuring needs ground truth; run `detflow predict` to detect only",
        "eval_instance_masks": "detectors here find boxes only; remove it",
        "retain_original_image_additional_channels": "images have three channels; remove it",
        "force_no_resize": "the exported detector that is measured resizes images itself; remove it",
    },
)

_READER = Support(
    ("builders.input_reader", "builders.label_targets", "tasks.train"),
    without_effect={
        "name": "a reader needs no name",
        "filenames_shuffle_buffer_size": "all file names are shuffled",
        "queue_capacity": _QUEUE,
        "min_after_dequeue": _QUEUE,
        "prefetch_size": _THREADS,
        "num_parallel_batches": _THREADS,
        "num_parallel_map_calls": _THREADS,
        "drop_remainder": "training takes full batches, evaluation every image",
        "use_display_name": "names and display names are both looked up",
        "include_source_id": "the source id is always read",
        "load_context_features": _CONTEXT,
        "load_context_image_ids": _CONTEXT,
    },
    refused={
        "num_additional_channels": "images have three channels; set it to 0",
        "load_dense_pose": "DensePose surfaces are not read; set it to false",
        "load_track_id": "tracks are not read; set it to false",
        "load_keypoint_depth_features": "keypoint depths are not read; set it to false",
        "frame_index": "single frames of sequence examples are not read; write each frame as a tf.Example",
        "expand_labels_hierarchy": "it adds ancestors to an image's labels, not to its boxes; write them "
        "into image/class/label",
        "external_input_reader": "it names a reader that is not part of this project; write TFRecords and "
        "use tf_record_input_reader",
    },
    refused_values={"input_type": {"TF_SEQUENCE_EXAMPLE": "write each frame as a tf.Example"}},
)

RUNNING_SUPPORT: Mapping[str, Support] = {
    "TrainEvalPipelineConfig": Support(("builders.inputs", "tasks.train", "tasks.quantize")),
    "TrainConfig": _TRAIN,
    "EvalConfig": _EVAL,
    "InputReader": _READER,
    "TFRecordInputReader": Support("builders.input_reader"),
    "Optimizer": Support("builders.optimizer"),
    "RMSPropOptimizer": Support("builders.optimizer"),
    "MomentumOptimizer": Support("builders.optimizer"),
    "AdamOptimizer": Support("builders.optimizer"),
    "LearningRate": Support("builders.optimizer"),
    "ConstantLearningRate": Support("builders.optimizer"),
    "ExponentialDecayLearningRate": Support("builders.optimizer"),
    "ManualStepLearningRate": Support("builders.optimizer"),
    "ManualStepLearningRate.LearningRateSchedule": Support("builders.optimizer"),
    "CosineDecayLearningRate": Support("builders.optimizer"),
}
