"""A CONNECT proxy in a thread, and certificates for tests."""

from __future__ import annotations

import datetime
import ipaddress
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def connect_proxy(refuse: bool = False, expect: str = "") -> Iterator[tuple[str, list[str]]]:
    """A proxy that passes CONNECT on. Yields its address and the targets that were asked for."""
    asked: list[str] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def pipe(source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        finally:
            for end in (source, target):
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def one(client: socket.socket) -> None:
        with client, suppress(OSError):  # either end may hang up at any moment
            head = b""
            while b"\r\n\r\n" not in head:
                data = client.recv(4096)
                if not data:
                    return
                head += data
            method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
            asked.append(f"{method} {target}")
            if expect and f"Proxy-Authorization: {expect}".encode() not in head:
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
                return
            if refuse:
                client.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                return
            host, _, port = target.rpartition(":")
            with socket.create_connection((host, int(port))) as server:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                back = threading.Thread(target=pipe, args=(server, client), daemon=True)
                back.start()
                pipe(client, server)
                back.join()

    def accept() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(client,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", asked
    finally:
        listening.close()


def make_certificates(folder: Path) -> dict[str, Path]:
    """An authority, a certificate for 127.0.0.1 and localhost, one for a client; with keys.

    "renewed" is another one of the server, and "expired" one that was valid until an hour ago.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def builder(subject: str, issuer: str, key: ec.EllipticCurvePrivateKey, ca: bool):
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name(issuer))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )

    found: dict[str, Path] = {}

    def write(label: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        found[label] = folder / f"{label}.pem"
        found[f"{label}_key"] = folder / f"{label}.key"
        found[label].write_bytes(certificate.public_bytes(Encoding.PEM))
        found[f"{label}_key"].write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )

    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca = builder("Test authority", "Test authority", ca_key, True).add_extension(
        x509.KeyUsage(False, False, False, False, False, True, True, False, False), critical=True
    )
    write("ca", ca.sign(ca_key, hashes.SHA256()), ca_key)
    for label in ("server", "client", "renewed", "expired"):
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        made = builder(label, "Test authority", key, False).add_extension(
            x509.SubjectAlternativeName(names), critical=False
        )
        if label == "expired":
            made._not_valid_after = (now - datetime.timedelta(hours=1)).replace(tzinfo=None)
        write(label, made.sign(ca_key, hashes.SHA256()), key)
    return found
