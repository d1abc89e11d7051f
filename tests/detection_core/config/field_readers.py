"""The modules that read the fields of each message, apart from those that are refused or have no effect."""

READERS = {
    "builders.datasets builders.train_plan builders.detector": ("TrainEvalPipelineConfig "),
    "detectors.family": ("DetectionModel "),
    "detectors.family builders.input_pipeline config.messages.pipeline config.messages.registered": (
        "ExperimentalModel "
    ),
    "builders.input_pipeline": (
        "AutomlResizer ConditionalShapeResizer FixedShapeResizer ImageResizer "
        "KeepAspectRatioResizer PadToMultipleResizer TFRecordInputReader "
    ),
    "": (
        "BipartiteMatcher DropCrowdBoxes IdentityResizer IoaSimilarity IouSimilarity "
        "L1LocalizationLoss Loss.EqualizationLoss NegSqDistSimilarity RGBtoGray "
        "ScaleBoxesToPixelCoordinates WeightedGIOULocalizationLoss WeightedIOULocalizationLoss "
        "WeightedL2LocalizationLoss WeightedSigmoidClassificationLoss "
    ),
    "builders.heads": (
        "BatchNorm ConvolutionalBoxPredictor.BoxEncodingsClipRange Hyperparams "
        "Initializer L1Regularizer L2Regularizer RandomNormalInitializer Regularizer "
        "TruncatedNormalInitializer VarianceScalingInitializer "
        "WeightSharedConvolutionalBoxPredictor.BoxEncodingsClipRange "
    ),
    "builders.heads families.faster_rcnn.build": ("BoxPredictor "),
    "builders.heads parts.heads families.ssd.check": (
        "ConvolutionalBoxPredictor WeightSharedConvolutionalBoxPredictor "
    ),
    "builders.detector_parts": (
        "AnchorGenerator AnchorGrid ArgMaxMatcher BoxCoder FasterRcnnBoxCoder "
        "FlexibleGridAnchorGenerator GridAnchorGenerator KeypointBoxCoder Matcher "
        "MeanStddevBoxCoder MultiscaleAnchorGenerator RegionSimilarityCalculator SquareBoxCoder "
        "ThresholdedIouSimilarity "
        "BootstrappedSigmoidClassificationLoss ClassificationLoss HardExampleMiner LocalizationLoss "
        "Loss PenaltyReducedLogisticFocalLoss RandomExampleSampler SigmoidFocalClassificationLoss "
        "WeightedDiceClassificationLoss WeightedSmoothL1LocalizationLoss "
        "WeightedSoftmaxClassificationAgainstLogitsLoss WeightedSoftmaxClassificationLoss "
        "CalibrationConfig ClassIdFunctionApproximations FunctionApproximation PostProcessing "
        "TemperatureScalingCalibration XYPairs XYPairs.XYPair "
    ),
    "builders.detector_parts config.messages.anchors": ("SsdAnchorGenerator "),
    "builders.detector_parts config.messages.detector_parts": ("BatchNonMaxSuppression "),
    "builders.train_plan builders.datasets builders.input_pipeline builders.detector"
    " config.messages.training": "TrainConfig",
    "builders.train_plan loggers.open_loggers": ("Monitoring "),
    "builders.train_plan": ("Monitoring.Profile Validation "),
    "optional.mlflow.mlflow_run": ("Monitoring.Mlflow "),
    "optional.wandb.wandb_run": ("Monitoring.Wandb "),
    "builders.train_plan config.messages.training": ("Validation.Metric "),
    "builders.optimizer": (
        "AdamOptimizer AutomlCosineLearningRate AutomlPolynomialLearningRate "
        "AutomlStepwiseLearningRate ConstantLearningRate LearningRate ManualStepLearningRate "
        "MomentumOptimizer Optimizer RMSPropOptimizer "
    ),
    "builders.optimizer config.messages.training": (
        "CosineDecayLearningRate ExponentialDecayLearningRate ManualStepLearningRate.LearningRateSchedule "
    ),
    "builders.augment": (
        "Mosaic PreprocessingStep RandomAbsolutePadImage RandomCropImage RandomCropPadImage "
        "RandomDownscaleToTargetPixels RandomJitterBoxes RandomPadImage ResizeImage SSDRandomCrop "
        "SSDRandomCropFixedAspectRatio SSDRandomCropFixedAspectRatioOperation "
        "SSDRandomCropOperation SSDRandomCropPad SSDRandomCropPadFixedAspectRatio "
        "SSDRandomCropPadFixedAspectRatioOperation SSDRandomCropPadOperation SubtractChannelMean "
    ),
    "augment.colour": (
        "AdjustGamma NormalizeImage RandomAdjustBrightness RandomAdjustContrast RandomAdjustHue "
        "RandomAdjustSaturation RandomDistortColor RandomPixelValueScale RandomRGBtoGray "
    ),
    "augment.patches": ("AutomlGridMask RandomBlackPatches RandomJpegQuality RandomPatchGaussian "),
    "augment.scaling": ("AutomlScaleJitter LargeScaleJitter RandomImageScale RandomResizeMethod "),
    "augment.policies": ("AutoAugmentImage "),
    "augment.boxes_and_labels": ("ConvertClassLogitsToSoftmax DropLabelProbabilistically RemapLabels "),
    "augment.crops": ("RandomCropToAspectRatio "),
    "augment.geometry": ("RandomHorizontalFlip RandomRotation90 RandomSelfConcatImage RandomVerticalFlip "),
    "augment.pads": ("RandomScaleCropAndPadToSquare RandomSquareCropByScale "),
    "augment.mixing": ("CopyPaste MixUp "),
    "builders.evaluation_settings": ("KeypointEdge "),
    "builders.evaluation_settings builders.train_plan config.messages.evaluation config.metric_names"
    " config.messages.pipeline": ("EvalConfig "),
    "config.metric_names": ("ParameterizedMetric "),
    "config.messages.evaluation": ("CocoKeypointMetrics "),
    "builders.input_pipeline builders.train_plan builders.datasets": ("InputReader "),
    "builders.detector": ("GraphRewriter MultiScale Quantization "),
    "config.messages.registered": ("RegisteredPart "),
    "families.ssd.network families.ssd.build": ("SsdFeatureExtractor "),
    "families.ssd.network": ("BidirectionalFeaturePyramidNetworks FeaturePyramidNetworks "),
    "families.ssd.build families.ssd.network builders.input_pipeline": ("Ssd "),
    "families.efficientdet.settings families.efficientdet.build builders.input_pipeline": ("EfficientDet "),
    "families.efficientdet.settings": ("EfficientDet.AnchorShape EfficientDet.FeatureNode "),
    "families.efficientdet.build": ("EfficientDet.NonMaxSuppression "),
    "families.center_net.build": (
        "CenterNet.PredictionHeadParams CenterNet.ObjectDetection CenterNet.ObjectCenterParams "
        "CenterNet.KeypointEstimation "
    ),
    "families.center_net.build builders.input_pipeline": ("CenterNet "),
    "families.center_net.build families.center_net.network families.center_net.extractors": (
        "CenterNetFeatureExtractor "
    ),
    "families.faster_rcnn.build families.faster_rcnn.check builders.input_pipeline"
    " config.messages.pipeline": ("FasterRcnn "),
    "families.faster_rcnn.build families.faster_rcnn.check": ("MaskRCNNBoxPredictor "),
    "families.faster_rcnn.build families.faster_rcnn.extractors": ("FasterRcnnFeatureExtractor "),
}
"""Modules below `detection_core` to the messages whose fields they read."""

READERS_OF = {name: tuple(modules.split()) for modules, names in READERS.items() for name in names.split()}
