"""A pair of keys that sign and verify: PEM files, written once a process."""

import atexit
import shutil
import tempfile
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


def write_keys(folder: Path, curve: ec.EllipticCurve, password: bytes = b"") -> tuple[str, str]:
    """Write a private and a public key; return their paths."""
    key = ec.generate_private_key(curve)
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    pem = serialization.Encoding.PEM
    private, public = folder / f"{curve.name}.pem", folder / f"{curve.name}.pub.pem"
    private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, encryption))
    public.write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    return str(private), str(public)


_folder = Path(tempfile.mkdtemp(prefix="detflow-keys-"))
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
PRIVATE_KEY, PUBLIC_KEY = write_keys(_folder, ec.SECP256R1())
