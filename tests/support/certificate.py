"""A certificate that nobody else signed."""

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def self_signed(folder: Path) -> str:
    """Write key and certificate of 127.0.0.1 into one file and return its path."""
    key, pem = ec.generate_private_key(ec.SECP256R1()), serialization.Encoding.PEM
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
    address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + day)
    certificate = builder.add_extension(address, critical=False).sign(key, hashes.SHA256())
    plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "server.pem").write_bytes(key.private_bytes(pem, *plain) + certificate.public_bytes(pem))
    return str(folder / "server.pem")
