"""CAs and certificates for tests, made by openssl: ECDSA P-256, as an operator would make them.

Each is a directory NAME as leafd takes it: tls.crt, tls.key (mode 0600), and the CA's own
certificate as ca.crt.
"""

import glob
import os
import shutil
import ssl
import subprocess

FAKETIME = "/usr/lib/*/faketime/libfaketime.so.1"
NEW_KEY = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


def openssl(*arguments, clock_s=0):
    """clock_s: so far from now is the time by its clock."""
    clock = {"LD_PRELOAD": glob.glob(FAKETIME)[0], "FAKETIME": f"{clock_s:+}"} if clock_s else {}
    return subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True,
                          stdin=subprocess.DEVNULL, timeout=30, env={**os.environ, **clock})


class Authority:
    """A CA of the test's own."""

    def __init__(self, directory, name="ca", since_s=0):
        self.directory = str(directory)
        os.makedirs(self.directory, exist_ok=True)
        self.pem = self.path(f"{name}.pem")
        self.key = self.path(f"{name}.key")
        openssl("req", "-x509", *NEW_KEY, "-keyout", self.key, "-out", self.pem, "-days", 365,
                "-subj", f"/CN={name}", clock_s=since_s)

    def path(self, name):
        return os.path.join(self.directory, name)

    def pair(self, name):
        """The paths of a certificate and of its key."""
        return self.path(f"{name}/tls.crt"), self.path(f"{name}/tls.key")

    def issue(self, name, names="DNS:localhost,IP:127.0.0.1", use="serverAuth", days=90,
              since_s=0):
        """A certificate and its key; their paths. Files of the name are replaced at once. since_s:
        it begins so long after now, and ends days after that."""
        request, extensions = self.path("request"), self.path("extensions")
        pem, key = self.pair(name)
        os.makedirs(self.path(name), exist_ok=True)
        shutil.copy(self.pem, self.path(f"{name}/ca.crt"))
        openssl("req", *NEW_KEY, "-keyout", f"{key}.new", "-out", request, "-subj", f"/CN={name}")
        with open(extensions, "w", encoding="ascii") as file:
            file.write(f"subjectAltName={names}\nkeyUsage=digitalSignature\n"
                       f"extendedKeyUsage={use}\nbasicConstraints=CA:FALSE\n"
                       "crlDistributionPoints=URI:http://ca.invalid/list\n")
        openssl("x509", "-req", "-in", request, "-CA", self.pem, "-CAkey", self.key,
                "-CAcreateserial", "-days", days, "-extfile", extensions, "-out", f"{pem}.new",
                clock_s=since_s)
        os.chmod(f"{key}.new", 0o600)
        os.replace(f"{key}.new", key)
        os.replace(f"{pem}.new", pem)
        return pem, key

    def client(self, certificate=None):
        """An SSLContext that trusts this CA, and shows a certificate (pem, key)."""
        context = ssl.create_default_context(cafile=self.pem)
        if certificate is not None:
            context.load_cert_chain(*certificate)
        return context
