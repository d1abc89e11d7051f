from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TrainingDataType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DATA_TYPE_UNKNOWN: _ClassVar[TrainingDataType]
    ALL_CLASSES: _ClassVar[TrainingDataType]
    CLASS_SPECIFIC: _ClassVar[TrainingDataType]
DATA_TYPE_UNKNOWN: TrainingDataType
ALL_CLASSES: TrainingDataType
CLASS_SPECIFIC: TrainingDataType

class CalibrationConfig(_message.Message):
    __slots__ = ("function_approximation", "class_id_function_approximations", "sigmoid_calibration", "class_id_sigmoid_calibrations", "temperature_scaling_calibration")
    FUNCTION_APPROXIMATION_FIELD_NUMBER: _ClassVar[int]
    CLASS_ID_FUNCTION_APPROXIMATIONS_FIELD_NUMBER: _ClassVar[int]
    SIGMOID_CALIBRATION_FIELD_NUMBER: _ClassVar[int]
    CLASS_ID_SIGMOID_CALIBRATIONS_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_SCALING_CALIBRATION_FIELD_NUMBER: _ClassVar[int]
    function_approximation: FunctionApproximation
    class_id_function_approximations: ClassIdFunctionApproximations
    sigmoid_calibration: SigmoidCalibration
    class_id_sigmoid_calibrations: ClassIdSigmoidCalibrations
    temperature_scaling_calibration: TemperatureScalingCalibration
    def __init__(self, function_approximation: _Optional[_Union[FunctionApproximation, _Mapping]] = ..., class_id_function_approximations: _Optional[_Union[ClassIdFunctionApproximations, _Mapping]] = ..., sigmoid_calibration: _Optional[_Union[SigmoidCalibration, _Mapping]] = ..., class_id_sigmoid_calibrations: _Optional[_Union[ClassIdSigmoidCalibrations, _Mapping]] = ..., temperature_scaling_calibration: _Optional[_Union[TemperatureScalingCalibration, _Mapping]] = ...) -> None: ...

class FunctionApproximation(_message.Message):
    __slots__ = ("x_y_pairs",)
    X_Y_PAIRS_FIELD_NUMBER: _ClassVar[int]
    x_y_pairs: XYPairs
    def __init__(self, x_y_pairs: _Optional[_Union[XYPairs, _Mapping]] = ...) -> None: ...

class ClassIdFunctionApproximations(_message.Message):
    __slots__ = ("class_id_xy_pairs_map",)
    class ClassIdXyPairsMapEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: XYPairs
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[XYPairs, _Mapping]] = ...) -> None: ...
    CLASS_ID_XY_PAIRS_MAP_FIELD_NUMBER: _ClassVar[int]
    class_id_xy_pairs_map: _containers.MessageMap[int, XYPairs]
    def __init__(self, class_id_xy_pairs_map: _Optional[_Mapping[int, XYPairs]] = ...) -> None: ...

class SigmoidCalibration(_message.Message):
    __slots__ = ("sigmoid_parameters",)
    SIGMOID_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    sigmoid_parameters: SigmoidParameters
    def __init__(self, sigmoid_parameters: _Optional[_Union[SigmoidParameters, _Mapping]] = ...) -> None: ...

class ClassIdSigmoidCalibrations(_message.Message):
    __slots__ = ("class_id_sigmoid_parameters_map",)
    class ClassIdSigmoidParametersMapEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: SigmoidParameters
        def __init__(self, key: _Optional[int] = ..., value: _Optional[_Union[SigmoidParameters, _Mapping]] = ...) -> None: ...
    CLASS_ID_SIGMOID_PARAMETERS_MAP_FIELD_NUMBER: _ClassVar[int]
    class_id_sigmoid_parameters_map: _containers.MessageMap[int, SigmoidParameters]
    def __init__(self, class_id_sigmoid_parameters_map: _Optional[_Mapping[int, SigmoidParameters]] = ...) -> None: ...

class TemperatureScalingCalibration(_message.Message):
    __slots__ = ("scaler",)
    SCALER_FIELD_NUMBER: _ClassVar[int]
    scaler: float
    def __init__(self, scaler: _Optional[float] = ...) -> None: ...

class XYPairs(_message.Message):
    __slots__ = ("x_y_pair", "training_data_type")
    class XYPair(_message.Message):
        __slots__ = ("x", "y")
        X_FIELD_NUMBER: _ClassVar[int]
        Y_FIELD_NUMBER: _ClassVar[int]
        x: float
        y: float
        def __init__(self, x: _Optional[float] = ..., y: _Optional[float] = ...) -> None: ...
    X_Y_PAIR_FIELD_NUMBER: _ClassVar[int]
    TRAINING_DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    x_y_pair: _containers.RepeatedCompositeFieldContainer[XYPairs.XYPair]
    training_data_type: TrainingDataType
    def __init__(self, x_y_pair: _Optional[_Iterable[_Union[XYPairs.XYPair, _Mapping]]] = ..., training_data_type: _Optional[_Union[TrainingDataType, str]] = ...) -> None: ...

class SigmoidParameters(_message.Message):
    __slots__ = ("a", "b")
    A_FIELD_NUMBER: _ClassVar[int]
    B_FIELD_NUMBER: _ClassVar[int]
    a: float
    b: float
    def __init__(self, a: _Optional[float] = ..., b: _Optional[float] = ...) -> None: ...
