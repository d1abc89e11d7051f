"""Redact secrets and control sequences in text that leaves the process.

Secrets are registered where they are read. Those of object store clients are found by the names of their
environment variables. Passwords in addresses, signatures, account keys and bearer tokens are recognised by
form.
"""

import json
import logging
import os
import re
import sys
import traceback
import types
import unicodedata
import urllib.parse

MASK = "***"
# Masking shorter ones would damage ordinary words.
_SHORTEST = 8
_VARIABLES = (
    "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SECURITY_TOKEN",
    "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_SAS_TOKEN", "AZURE_CLIENT_SECRET",
)  # fmt: skip
_STORES = r"(?:s3a?|gc?s|az|abfss?)"
# S3 keys may contain slashes; an Azure container also precedes an @, but without a colon.
_PAIR = re.compile(
    rf"(?<!\w)(?P<scheme>{_STORES}://)(?P<secret>[^/:@\s\"'<>]{{0,300}}:[^@\s\"'<>]{{0,300}})@", re.IGNORECASE
)
_NAMES = r"token|secret|signature|password|passwd|credential|api[_-]?key|access[_-]?key(?:[_-]?id)?|accessid"
_MARK, _EQUALS = r"(?:[?&;]|\[\?\]|%(?:25)*(?:3F|26|3B))", r"(?:=|%(?:25)*3D)"
# In the form of an address, plain or percent-encoded.
_QUERY = re.compile(
    rf"(?P<name>{_MARK}(?:[\w.-]{{0,40}}(?:{_NAMES})|auth|key|pwd|sig){_EQUALS})(?P<secret>(?!%26)[^&;#\s\"'<>]+?)"
    r"(?=[&;#\s\"'<>]|%26|$)",
    re.IGNORECASE,
)
_FORMS = (
    (_PAIR, rf"\g<scheme>{MASK}@"),
    (re.compile(r"(?<=://)[^/\s\"'<>]*@"), f"{MASK}@"),
    (_QUERY, rf"\g<name>{MASK}"),
    (re.compile(r"\bBearer [A-Za-z0-9._~+/=-]{16,}"), f"Bearer {MASK}"),
    (re.compile(r"\b(X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)=)[^&\s\"'<>]+"), rf"\1{MASK}"),
    # Azure: a shared access signature, and the parts of a connection string.
    (re.compile(r"([?&]sig=|\b(?:AccountKey|SharedAccessSignature)=)[^&;\s\"'<>]+"), rf"\1{MASK}"),
    # Beam's worker options.
    (
        re.compile(
            r"(--(?:s3_(?:secret_access_key|access_key_id|session_token)|azure_connection_string)=)[^\s\"']+"
        ),
        rf"\1{MASK}",
    ),
)
# Besides control characters: bidirectional marks and line separators.
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

# Tokens are renewed often: only the latest are kept, to bound memory.
_MOST = 200
_hidden: dict[str, None] = {}


def hide(value: str) -> None:
    """Register a secret, to mask it in all later output."""
    # Output may quote a single line of a secret.
    for part in (value, *value.splitlines()):
        if len(part.strip()) >= _SHORTEST:
            _hidden.pop(part, None)
            _hidden[part] = None
    while len(_hidden) > _MOST:
        del _hidden[next(iter(_hidden))]


def hide_credentials(address: str) -> bool:
    """Register the credentials in an address of a file or a server; return whether there are any.

    Servers and clients repeat them in their own texts, where they cannot be recognised by form.
    """
    if "@" not in address and "?" not in address and "%" not in address:
        return False
    pair = _PAIR.search(address)
    if pair is None and re.match(r"https?://", address):
        pair = re.match(r"https?://(?P<secret>[^/?#]*)@", address)
    found = [pair["secret"], *pair["secret"].split(":", 1)] if pair else []
    found += [match["secret"] for match in _QUERY.finditer(address)]
    for secret in found:
        hide(secret)
        hide(urllib.parse.unquote(secret))
    return bool(found)


def find_header_fault(secret: str, allowed: re.Pattern[str]) -> str:
    """Return why a stripped secret cannot be sent in a header, without revealing it; "" if it can."""
    sendable = allowed.match(secret)
    end = sendable.end() if sendable else 0
    if end == len(secret):
        return ""
    found = "a line break" if secret[end] in "\r\n" else f"the character U+{ord(secret[end]):04X}"
    return f"expected one line of printable ASCII, found {found} after {end} characters"


def redact(text: str) -> str:
    """Return a text with every known secret masked, both plain and as quoted in messages and JSON."""
    found = {v for name in _VARIABLES for v in os.environ.get(name, "").splitlines() if len(v) >= _SHORTEST}
    secrets = found.union(_hidden)
    if secrets:
        quoted = {form for secret in secrets for form in _forms(secret)}
        pattern = "|".join(re.escape(form) for form in sorted(quoted, key=len, reverse=True))
        text = re.sub(pattern, MASK, text)
    for form, masked in _FORMS:
        text = form.sub(masked, text)
    return text


def visible(text: str) -> str:
    """Return a text with control characters escaped, except tabs and line breaks."""
    return _OBEYED.sub(_written, text)


def clean(text: str) -> str:
    """Return a text for a terminal: redacted, with control characters escaped."""
    return visible(redact(text))


class CleanFormatter(logging.Formatter):
    """Formats log records with secrets masked in messages and tracebacks."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as text for a terminal or a file."""
        return clean(super().format(record))


def clean_tracebacks() -> None:
    """Mask secrets in the tracebacks that Python prints for uncaught errors."""

    def show(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        sys.stderr.write(clean("".join(traceback.format_exception(kind, error, trace))))

    sys.excepthook = show


def _forms(secret: str) -> tuple[str, ...]:
    return (
        secret,
        repr(secret)[1:-1],
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        urllib.parse.quote(secret),
        urllib.parse.quote(secret, safe=""),
        urllib.parse.quote_plus(secret),
    )


def _written(found: re.Match[str]) -> str:
    character = found.group()
    if unicodedata.category(character) == "Cs" or ord(character) > 0xFF:
        return f"\\u{ord(character):04x}"
    return {"\r": "\\r"}.get(character, f"\\x{ord(character):02x}")
