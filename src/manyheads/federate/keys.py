"""Certificates and keys of a study: a certificate authority of its own, the server's certificate, a key pair a site.

A study's own authority is for trying, and for networks of one's own. Where there are real certificates, put them in its
place: ``authority/ca.crt``, ``server/server.pem`` and ``server/server.key``.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = ["make_authority", "make_key_pair", "make_server_certificate"]

VALID = timedelta(days=3650)
CA, CA_KEY, SERVER, SERVER_KEY = "ca.crt", "ca.key", "server.pem", "server.key"


def make_authority(folder: Path, name: str) -> None:
    """A certificate authority: ``ca.crt``, and ``ca.key``, with which ``server.pem`` can be made anew."""
    key, subject = ec.generate_private_key(ec.SECP384R1()), _name(f"{name} certificate authority")
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    certificate = (
        _certificate(subject, subject, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .sign(key, hashes.SHA384())
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_private(folder / CA_KEY, _private(key, serialization.PrivateFormat.PKCS8))
    (folder / CA).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def make_server_certificate(authority: Path, folder: Path, hosts: list[str]) -> None:
    """The server's certificate for these host names and addresses, and its key."""
    ca = x509.load_pem_x509_certificate((authority / CA).read_bytes())
    ca_key = serialization.load_pem_private_key((authority / CA_KEY).read_bytes(), password=None)
    assert isinstance(ca_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP384R1())
    certificate = (
        _certificate(_name("manyheads server"), ca.subject, key.public_key())
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(ca_key, hashes.SHA384())
    )
    folder.mkdir(parents=True, exist_ok=True)
    write_private(folder / SERVER_KEY, _private(key, serialization.PrivateFormat.PKCS8))
    (folder / SERVER).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def make_key_pair(private: Path) -> None:
    """A site's key pair, as ``ssh-keygen -t ecdsa -b 384`` makes it: PRIVATE and PRIVATE.pub."""
    key = ec.generate_private_key(ec.SECP384R1())
    write_private(private, _private(key, serialization.PrivateFormat.OpenSSH))
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    private.with_name(f"{private.name}.pub").write_bytes(public + b"\n")


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, and never another way."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(file, "wb") as out:
        out.write(data)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _certificate(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + VALID)
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _private(key: ec.EllipticCurvePrivateKey, form: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
