"""The message types of a config."""

from google.protobuf.descriptor import Descriptor

from detection_core.config.messages.table import message_name
from detection_core.protos.pipeline_pb2 import TrainEvalPipelineConfig


def _messages() -> dict[str, Descriptor]:
    found, waiting = {}, [TrainEvalPipelineConfig.DESCRIPTOR]
    while waiting:
        message = waiting.pop()
        if message_name(message) not in found:
            found[message_name(message)] = message
            waiting += [field.message_type for field in message.fields if field.message_type is not None]
    return found


MESSAGES = _messages()
"""Every message type below the root, by its name in the rules; entries of maps, too."""
