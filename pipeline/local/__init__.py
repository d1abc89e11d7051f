"""Local runs: the backends with TFX and without, the workspace, run.json."""

UNUSED_BY_TFX = {
    "tfx.dsl.components.base.base_beam_executor": ("apache_beam",),
    "tfx.orchestration.portable.beam_executor_operator": ("apache_beam",),
    "tfx.dsl.io.plugins.tensorflow_gfile": ("tensorflow",),
    "tfx.utils.doc_controls": ("tensorflow",),
    "tfx.dsl.input_resolution.strategies.latest_blessed_model_strategy": ("tfx.components",),
    "tfx.dsl.input_resolution.strategies.span_range_strategy": ("tfx.components",),
}
"""What these modules of TFX import if it is installed, and a local run does not use: TFX's own Beam executors
and a remote pipeline root. For `detection_core.quick_imports`."""
