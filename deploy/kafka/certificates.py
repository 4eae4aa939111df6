"""Certificates for tests: an authority, and the certificates that it signs, as PEM files made by openssl.

authority = CertificateAuthority(folder)
pair = authority.sign("judge")           # pair.certificate, pair.key, pair.both
broker = authority.sign("broker", names=("localhost",))
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy.kafka.jars import BrokerError

DAYS = "2"
CURVE = "prime256v1"


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """A certificate with its unencrypted key, each in a file, and both in one, as Kafka's brokers take them."""

    certificate: Path
    key: Path
    both: Path


class CertificateAuthority:
    """Signs certificates for two days. Its own certificate is `certificate`."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        """Create the authority. Raises BrokerError without openssl. About 10 ms a certificate."""
        if shutil.which("openssl") is None:
            raise BrokerError("openssl is missing: run apt-get install openssl")
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.certificate = folder / f"{name}.crt"
        self._key = folder / f"{name}.key"
        self._serial = 1
        subject = ["-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign"]
        _openssl("req", "-x509", "-days", DAYS, *_new_key(self._key), *subject, "-out", self.certificate)

    def sign(self, name: str, names: Sequence[str] = ()) -> CertificatePair:
        """Sign a certificate for `CN=name`, which may also be a server with the host names `names`."""
        pair = CertificatePair(*(self._folder / f"{name}.{ending}" for ending in ("crt", "key", "pem")))
        request, extensions = self._folder / f"{name}.csr", self._folder / f"{name}.ext"
        uses = "serverAuth,clientAuth" if names else "clientAuth"
        alternative = f"subjectAltName={','.join(f'DNS:{host}' for host in names)}\n" if names else ""
        extensions.write_text(f"extendedKeyUsage={uses}\n{alternative}")
        self._serial += 1
        _openssl("req", "-new", *_new_key(pair.key), "-subj", f"/CN={name}", "-out", request)
        signer: list[str | Path] = ["-CA", self.certificate, "-CAkey", self._key, "-set_serial", str(self._serial)]
        _openssl(
            "x509", "-req", "-in", request, *signer, "-days", DAYS, "-extfile", extensions, "-out", pair.certificate
        )
        pair.both.touch(0o600)
        pair.both.write_bytes(pair.key.read_bytes() + pair.certificate.read_bytes())
        return pair


def _new_key(path: Path) -> list[str | Path]:
    return ["-newkey", "ec", "-pkeyopt", f"ec_paramgen_curve:{CURVE}", "-nodes", "-keyout", path]


def _openssl(*arguments: str | Path) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BrokerError(f"openssl {arguments[0]} failed: {done.stderr[-500:]}")
