"""Certificates for a secured broker and its clients, made for one run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import load_pem_x509_certificate

PASSWORD = "of-the-key"


@dataclass(frozen=True)
class Identity:
    """A certificate and its key, in the forms that clients can be given."""

    chain: Path
    key: Path
    encrypted_key: Path
    store: Path
    """Both as PKCS#12."""


class Authority:
    """One certificate authority and what it has signed."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self._authority = trustme.CA()
        self.certificate = directory / "ca.pem"
        self._authority.cert_pem.write_to_path(self.certificate)

    def identity(self, name: str, *hosts: str, expired: bool = False) -> Identity:
        """A certificate for these hosts, or for a client of this name."""
        over = datetime(2001, 1, 1, tzinfo=UTC) if expired else None
        signed = self._authority.issue_cert(
            *hosts or (f"{name}.test",), common_name=name, not_after=over
        )
        chain = b"".join(each.bytes() for each in signed.cert_chain_pems)
        key = load_pem_private_key(signed.private_key_pem.bytes(), None)
        secret = BestAvailableEncryption(PASSWORD.encode())
        found = Identity(*(self._directory / f"{name}.{kind}" for kind in _KINDS))
        found.chain.write_bytes(chain)
        found.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        found.encrypted_key.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, secret)
        )
        certificate = load_pem_x509_certificate(chain)
        found.store.write_bytes(
            pkcs12.serialize_key_and_certificates(name.encode(), key, certificate, None, secret)  # type: ignore[arg-type]
        )
        return found


_KINDS = ("chain.pem", "key.pem", "encrypted.pem", "p12")
