"""Authorities and their certificates, made by the program `openssl`."""

import os
import shutil
import subprocess
import tempfile
from typing import List, Tuple

from consort import Tls

#: Whether there are any.
CAN_BE_MADE = shutil.which("openssl") is not None
#: What is said where there are none.
MISSING = "tests of TLS are left out: no program `openssl`"

CONFIG = """\
[req]
distinguished_name = name
[name]
[root]
basicConstraints = critical, CA:TRUE
[ca]
default_ca = own
[own]
database = {folder}/index
new_certs_dir = {folder}
rand_serial = yes
unique_subject = no
default_md = sha256
default_days = 2
policy = policy
x509_extensions = leaf
[policy]
commonName = supplied
[leaf]
subjectAltName = {alternative}
"""


class Authority:
    """Signs certificates, which are files in a folder of its own."""

    def __init__(self, name: str) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="consort-python-")
        self.pem, self.key = self.path("authority.pem"), self.path("authority.key")
        with open(self.path("index"), "w", encoding="utf-8"):
            pass
        self._config("DNS:none")
        self._openssl(["req", "-x509", "-extensions", "root", "-days", "2", *self._new_key("authority", name)], self.pem)

    def of(self, name: str, days: Tuple[str, ...] = ()) -> Tuple[str, str]:
        """The files of a certificate for a DNS name or an address, and of its key."""
        pem, key = self.path(f"{name}.pem"), self.path(f"{name}.key")
        self._config(f"IP:{name}" if name[0].isdigit() else f"DNS:{name}")
        self._openssl(["req", "-new", *self._new_key(name, name)], self.path("request"))
        words = ["ca", "-batch", "-notext", "-cert", self.pem, "-keyfile", self.key, "-in", self.path("request")]
        self._openssl([*words, *days], pem)
        return pem, key

    def expired(self, name: str) -> Tuple[str, str]:
        """The same, of long ago."""
        return self.of(name, ("-startdate", "20200101000000Z", "-enddate", "20200102000000Z"))

    def tls(self, *own: str) -> Tls:
        """A client that believes this authority, and shows these files."""
        return Tls(self.pem, *own)

    def end(self) -> None:
        self.folder.cleanup()

    def path(self, name: str) -> str:
        return os.path.join(self.folder.name, name)

    def _config(self, alternative: str) -> None:
        with open(self.path("config"), "w", encoding="utf-8") as file:
            file.write(CONFIG.format(folder=self.folder.name, alternative=alternative))

    def _new_key(self, file: str, name: str) -> List[str]:
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.path(f"{file}.key")]
        return [*key, "-subj", f"/CN={name}"]

    def _openssl(self, words: List[str], out: str) -> None:
        words = ["openssl", words[0], "-config", self.path("config"), *words[1:], "-out", out]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{words} failed: {done.stderr}")


def security(daemons: Authority, *clients: Authority) -> str:
    """What daemons are configured with that ask for certificates of these clients, if there are any."""
    pem, key = daemons.of("127.0.0.1")
    text = '[clients]\nlisten_tls = ["127.0.0.1:TLS_PORT"]\n'
    text += f'[security]\ncertificate = "{pem}"\ncertificate_key = "{key}"\n'
    return text + "".join(f'client_authority = "{each.pem}"\n' for each in clients)
