"""Certificates of a test, which `openssl` makes."""

from __future__ import annotations

import subprocess
from pathlib import Path


def make_certificate(
    folder: Path, name: str, hosts: str = "IP:127.0.0.1,DNS:localhost", signer: tuple[Path, Path] | None = None
) -> tuple[Path, Path]:
    """One that has signed itself, or that has the certificate and key of a signer; and its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
         "-subj", f"/CN={name}", "-addext", f"subjectAltName={hosts}", "-out", certificate, "-keyout", key,
         *(("-CA", signer[0], "-CAkey", signer[1]) if signer else ())],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key
