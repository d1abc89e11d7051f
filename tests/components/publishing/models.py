"""Small SavedModels that tell whether they are whole, and what readers and TensorFlow Serving see of them."""

import os

from components.publishing.destination import PushDestination
from detection_core.artifacts.published import PublishedVersion
from detection_core.artifacts.signature import sign_folder, verify_folder
from detection_core.storage import files
from detection_core.storage.local_lock import PARTIAL
from tests.support.keys import PRIVATE_KEY, PUBLIC_KEY

_FILES = ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001")


def make_model(folder, content):
    """Write a model's folder, all of whose files say the same."""
    for name in _FILES:
        files.write_text(os.path.join(folder, name), f"{content} {name}")
    return str(folder)


def publish(destination, saved_model, tflite="", keep=0, **fields):
    """Publish with a fingerprint that is the model's content, and signed."""
    content = files.read_text(os.path.join(saved_model, "saved_model.pb")).split()[0]
    version = PublishedVersion(number=0, **{"fingerprint": content, **fields})

    def sign(folder):
        sign_folder(folder, PRIVATE_KEY, content, {"model": content})

    return destination.publish(saved_model, tflite, version, keep, sign=sign)


def is_complete(folder):
    """Tell whether a folder holds all files of one model."""
    try:
        return len({files.read_text(os.path.join(folder, name)).split()[0] for name in _FILES}) == 1
    except FileNotFoundError:
        return False


def served_numbers(root):
    """Return the versions that TensorFlow Serving finds below its base path.

    It polls the base path's children and takes those named by a number
    (tensorflow_serving/sources/storage_path/ file_system_storage_path_source.cc). On a store a folder without
    saved_model.pb is one that it cannot load: the loader gives up with an error and the version before stays
    loaded.
    """
    base = os.path.join(root, "saved_model")
    if not files.is_dir(base):
        return []
    numbers = sorted(int(name) for name in files.list_dir(base) if name.isdigit())
    if files.is_remote(root):
        numbers = [n for n in numbers if files.exists(os.path.join(base, str(n), "saved_model.pb"))]
    return numbers


def look(root):
    """Do what a reader does at any moment: nothing that it finds may be half; return what is deployed."""
    for number in served_numbers(root):
        assert is_complete(os.path.join(root, "saved_model", str(number))), f"{number} is served by half"
    reader = PushDestination(root)
    reader.versions()
    reader.find("any")
    current = reader.current()
    if current:
        assert is_complete(reader.saved_model_dir(current.number)), f"{current.number} is not complete"
    return current.number if current else None


def verify_served(root):
    """Compare the files of every served version with their signatures."""
    for number in map(str, served_numbers(root)):
        for folder in (os.path.join(root, kind, number) for kind in ("saved_model", "tflite")):
            if files.is_dir(folder):
                verify_folder(folder, PUBLIC_KEY)


def leftovers(root):
    """Return the files that no version owns below a destination."""
    known = {str(v.number) for v in PushDestination(root).versions()}
    lost = []
    for path in files.sizes(root):
        parts = path.split("/")
        unknown = parts[0] in ("saved_model", "tflite", "rolled_back") and parts[1] not in known
        if unknown or parts[0] == ".removing" or any(map(PARTIAL.fullmatch, parts)):
            lost.append(path)
    return lost
