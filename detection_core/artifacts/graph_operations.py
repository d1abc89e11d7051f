"""Refuses SavedModels that do more than compute, by reading the graph before TensorFlow loads it.

Loading a SavedModel already runs parts of it, and an operation of a graph may read and write files, open
connections or call Python. The graph is data until then: its nodes, and those of every function in its
library, are compared with a list of operations that only compute.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from detection_core.artifacts import detector as layout
from detection_core.errors import ModelError
from detection_core.storage import files

_NAMED_IN_ERROR = 5

_STRUCTURE = """
    Const HostConst Placeholder PlaceholderV2 PlaceholderWithDefault Identity IdentityN NoOp Shape ShapeN
    Size Rank StopGradient PreventGradient EnsureShape Assert CheckNumerics CheckNumericsV2 GuaranteeConst
    Snapshot PartitionedCall StatefulPartitionedCall If StatelessIf Case StatelessCase While
    StatelessWhile For ControlTrigger Enter Exit LoopCond Merge NextIteration Switch FakeParam
    EmptyTensorList TensorListConcat TensorListConcatV2 TensorListElementShape TensorListFromTensor
    TensorListGather TensorListGetItem TensorListLength TensorListPopBack TensorListPushBack
    TensorListReserve TensorListResize TensorListScatter TensorListScatterV2
    TensorListScatterIntoExistingList TensorListSetItem TensorListSplit TensorListStack TensorArrayV3
    TensorArrayCloseV3 TensorArrayConcatV3 TensorArrayGatherV3 TensorArrayReadV3 TensorArrayScatterV3
    TensorArraySizeV3 TensorArraySplitV3 TensorArrayWriteV3
"""
_VARIABLES_AND_TABLES = """
    VarHandleOp VarIsInitializedOp ReadVariableOp AssignVariableOp AssignAddVariableOp AssignSubVariableOp
    DestroyResourceOp DisableCopyOnRead ResourceGather ResourceGatherNd VariableShape VariableV2 Variable
    Assign AssignAdd AssignSub IsVariableInitialized HashTable HashTableV2 AnonymousHashTable
    MutableHashTableV2 InitializeTable InitializeTableV2 LookupTableFind LookupTableFindV2
    LookupTableImport LookupTableImportV2 LookupTableExportV2 LookupTableInsertV2 LookupTableSize
    LookupTableSizeV2
"""
_ARITHMETIC = """
    Abs Add AddN AddV2 AccumulateNV2 ApproximateEqual ArgMax ArgMin Acos Acosh Asin Asinh Atan Atan2 Atanh
    BatchMatMul BatchMatMulV2 BatchMatMulV3 BitwiseAnd BitwiseOr BitwiseXor Bitcast Bucketize Cast Ceil
    ClipByValue Cos Cosh Cross Cumprod Cumsum CumulativeLogsumexp Digamma Div DivNoNan Einsum Equal Erf
    Erfc Erfinv EuclideanNorm Exp Expm1 Floor FloorDiv FloorMod Greater GreaterEqual Inv Invert IsFinite
    IsInf IsNan LeftShift Less LessEqual Lgamma LinSpace Log Log1p LogicalAnd LogicalNot LogicalOr MatMul
    Max Maximum Mean Min Minimum Mod Mul MulNoNan Ndtri Neg NextAfter NotEqual Pow Prod Range RealDiv
    Reciprocal RightShift Rint Round Rsqrt Sign Sin Sinh Sqrt Square SquaredDifference Sub Sum Tan
    TruncateDiv TruncateMod Xdivy Xlog1py Xlogy Any All Bincount DenseBincount HistogramFixedWidth
    SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum UnsortedSegmentMax UnsortedSegmentMin
    UnsortedSegmentProd UnsortedSegmentSum
"""
_ARRAYS = """
    BatchToSpace BatchToSpaceND BroadcastArgs BroadcastTo Concat ConcatOffset ConcatV2 DepthToSpace Diag
    DiagPart DynamicPartition DynamicStitch ParallelDynamicStitch ExpandDims Fill Gather GatherNd GatherV2
    InTopK InTopKV2 InvertPermutation ListDiff LowerBound MatrixBandPart MatrixDiag MatrixDiagPart
    MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2 MatrixDiagV3 MatrixInverse MatrixSetDiag
    MatrixSetDiagV2 MatrixSetDiagV3 MirrorPad NthElement OneHot OnesLike Pack Pad PadV2 ParallelConcat
    Reshape Reverse ReverseSequence ReverseV2 Roll ScatterNd Select SelectV2 Slice SpaceToBatch
    SpaceToBatchND SpaceToDepth Split SplitV Squeeze StridedSlice TensorScatterAdd TensorScatterMax
    TensorScatterMin TensorScatterSub TensorScatterUpdate Tile TopK TopKV2 ApproxTopK Transpose
    ConjugateTranspose Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2 Unpack UnravelIndex UpperBound
    Where ZerosLike RaggedBincount RaggedGather RaggedRange RaggedTensorToTensor RaggedTensorFromVariant
    RaggedTensorToVariant
"""
_NETWORKS = """
    AvgPool AvgPool3D BatchNormWithGlobalNormalization BiasAdd BiasAddV1 Conv Conv2D Conv2DBackpropInput
    Conv2DBackpropInputV2 Conv3D Conv3DBackpropInputV2 DataFormatDimMap DataFormatVecPermute
    DepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput Dilation2D Elu FractionalAvgPool
    FractionalMaxPool FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 FusedPadConv2D
    FusedResizeAndPadConv2D L2Loss LRN LeakyRelu LogSoftmax MaxPool MaxPool3D MaxPoolV2 MaxPoolWithArgmax
    Relu Relu6 Selu Sigmoid Softmax Softplus Softsign Tanh Dequantize FakeQuantWithMinMaxArgs
    FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel QuantizeAndDequantize
    QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 QuantizeV2
    RandomStandardNormal RandomUniform RandomUniformInt TruncatedNormal StatelessRandomGetAlg
    StatelessRandomGetKeyCounter StatelessRandomNormalV2 StatelessRandomUniformV2
    StatelessRandomUniformIntV2
"""
_IMAGES_AND_TEXTS = """
    AdjustContrast AdjustContrastv2 AdjustHue AdjustSaturation CropAndResize DecodeAndCropJpeg DecodeBmp
    DecodeGif DecodeImage DecodeJpeg DecodePng DecodePaddedRaw DecodeRaw DrawBoundingBoxes
    DrawBoundingBoxesV2 EncodeJpeg EncodePng ExtractGlimpse ExtractGlimpseV2 ExtractImagePatches
    ExtractJpegShape HSVToRGB ImageProjectiveTransformV2 ImageProjectiveTransformV3 RGBToHSV ResizeArea
    ResizeBicubic ResizeBilinear ResizeNearestNeighbor ScaleAndTranslate CombinedNonMaxSuppression
    GenerateBoundingBoxProposals NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3
    NonMaxSuppressionV4 NonMaxSuppressionV5 NonMaxSuppressionWithOverlaps AsString DecodeBase64
    EncodeBase64 ParseExample ParseExampleV2 ParseSingleExample ParseTensor ReduceJoin RegexFullMatch
    RegexReplace SerializeTensor ShardedFilename StaticRegexFullMatch StaticRegexReplace StringFormat
    StringJoin StringLength StringLower StringSplit StringSplitV2 StringStrip StringToHashBucketFast
    StringToNumber StringUpper Substr
"""
# Operations whose result depends on inputs, the model's variables and tables, and random numbers only.
# Excluded although they look harmless: ImmutableConst, DecodeProtoV2, GenerateVocabRemapping and
# FixedUnigramCandidateSampler read files that an attribute names, PrintV2 and CustomAggregator write them.
COMPUTING = frozenset(
    name
    for group in (_STRUCTURE, _VARIABLES_AND_TABLES, _ARITHMETIC, _ARRAYS, _NETWORKS, _IMAGES_AND_TEXTS)
    for name in group.split()
)
# What every SavedModel has to write and read its variables, beside what is served. They take the names of
# files as an input, so nothing that is run may have them.
SAVING = frozenset({"SaveV2", "MergeV2Checkpoints"})
RESTORING = frozenset({"RestoreV2"})


def check_graph(directory: str, *, trust: bool = False) -> None:
    """Refuse a SavedModel with operations that do more than compute.

    Args:
        directory: the SavedModel's folder.
        trust: accept the model anyway; the caller trusts its author.

    Raises:
        ModelError: naming the operations; or when saved_model.pb is none, whatever `trust` says.
    """
    path = files.join(directory, layout.SAVED_MODEL)
    refused = sorted({name for meta in _read(path).meta_graphs for name in _refused(meta)})
    if not refused or trust:
        return
    named = ", ".join(refused[:_NAMED_IN_ERROR])
    more = f" and {len(refused) - _NAMED_IN_ERROR} more" if len(refused) > _NAMED_IN_ERROR else ""
    raise ModelError(
        f"expected a graph that only computes, found {named}{more} in it, which may read or write files, open"
        " connections or run code; nothing of it was loaded. If you know who made this model and trust them,"
        " `detflow predict` and `detflow evaluate` run it with --trust",
        where=path,
    )


def _read(path: str) -> Any:
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    try:
        saved = saved_model_pb2.SavedModel.FromString(files.read_bytes(path))
    except (DecodeError, OSError) as error:
        raise ModelError(
            f"expected a SavedModel, found a file that is damaged or none ({error}); export the model again",
            where=path,
        ) from error
    if not saved.meta_graphs:
        raise ModelError(
            "expected a SavedModel, found a file without a graph; export the model again", where=path
        )
    return saved


def _refused(meta: Any) -> Iterator[str]:
    """Yield the names of forbidden operations in a graph."""
    library = {function.signature.name: function for function in meta.graph_def.library.function}
    shadowing = {name for name in library if _is_operation(name)}
    yield from shadowing - COMPUTING
    allowed = COMPUTING | SAVING | RESTORING | (library.keys() - shadowing)
    for nodes in (meta.graph_def.node, *(function.node_def for function in library.values())):
        yield from (node.op for node in nodes if node.op not in allowed)
    top = {node.name: node for node in meta.graph_def.node}
    yield from _reached(_served(meta), top, library, meta.object_graph_def.concrete_functions) & (
        SAVING | RESTORING
    )
    yield from _reached([meta.saver_def.restore_op_name], top, library, ()) & SAVING


def _is_operation(name: str) -> bool:
    """Tell whether TensorFlow has an operation of a name, which would run instead of a function so called."""
    from tensorflow.python.framework import op_def_registry

    return op_def_registry.get(name) is not None


def _served(meta: Any) -> Iterator[str]:
    """Yield what of the outer graph is run in serving or loading, as names of nodes or of their outputs."""
    for signature in meta.signature_def.values():
        yield from (info.name for info in signature.outputs.values())
        yield from (
            part.name for info in signature.outputs.values() for part in info.composite_tensor.components
        )
    for collection in meta.collection_def.values():
        yield from collection.node_list.value


def _reached(
    start: Iterable[str], top: dict[str, Any], library: dict[str, Any], functions: Iterable[str]
) -> set[str]:
    """Return the operations that are run for some nodes of the outer graph, and in some functions."""
    operations: set[str] = set()
    called = list(functions)
    pending, seen = list(start), set()
    while pending:
        name = pending.pop().removeprefix("^").partition(":")[0]
        node = top.get(name)
        if name in seen or node is None:
            continue
        seen.add(name)
        operations.add(node.op)
        pending += node.input
        called += _calls(node)
    done: set[str] = set()
    while called:
        name = called.pop()
        if name in done or name not in library:
            continue
        done.add(name)
        for node in library[name].node_def:
            operations.add(node.op)
            called += _calls(node)
    return operations


def _calls(node: Any) -> Iterator[str]:
    """Yield the names of functions that a node may call."""
    yield node.op
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        yield from (function.name for function in value.list.func)
