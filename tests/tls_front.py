"""A TLS front for a plain server, with a certificate authority of its own."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make_certificates(directory: Path) -> Path:
    """A certificate authority (``ca.pem``, answered), a server of 127.0.0.1 (``server.pem``), a client
    of the authority's (``client.pem``) and one of another of the same name (``stranger.pem``).
    """
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _sign("tests' authority", authority_key, "tests' authority", authority_key, ca=True)
    (directory / "ca.pem").write_bytes(authority.public_bytes(serialization.Encoding.PEM))
    other_key = ec.generate_private_key(ec.SECP256R1())
    for name, issuer_key in (
        ("server", authority_key),
        ("client", authority_key),
        ("stranger", other_key),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _sign("127.0.0.1", key, "tests' authority", issuer_key, ca=False)
        (directory / f"{name}.pem").write_bytes(_pem(certificate, key))
    return directory / "ca.pem"


def _pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> bytes:
    pem = serialization.Encoding.PEM
    return certificate.public_bytes(pem) + key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _sign(
    subject: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: str,
    issuer_key: ec.EllipticCurvePrivateKey,
    *,
    ca: bool,
) -> x509.Certificate:
    today = datetime(2020, 1, 1, tzinfo=UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(_name(issuer))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today)
        .not_valid_after(today + timedelta(days=36_500))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


class TlsFront:
    """Listens on loopback, ends TLS and forwards to a port of 127.0.0.1."""

    def __init__(self, certificates: Path, target_port: int) -> None:
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificates / "server.pem")
        self._target = ("127.0.0.1", target_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listener.getsockname()[1])

    def close(self) -> None:
        """Accept no more connections."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        try:
            outside = self._context.wrap_socket(client, server_side=True)
            inside = socket.create_connection(self._target)
        except OSError:  # a client that does not trust us hangs up
            client.close()
            return
        threading.Thread(target=_copy, args=(inside, outside), daemon=True).start()
        _copy(outside, inside)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
