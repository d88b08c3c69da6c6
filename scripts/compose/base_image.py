"""base_image.py - a base image where no registry can be reached: Debian by debootstrap.

Like debian:bookworm-slim: the required packages and apt, without documentation and translations;
dpkg does not flush what it unpacks.
The release, the mirror, the sources and apt's settings for the network (proxies, checks of dates)
are those of this system, read from apt itself, so that apt works in the image as it does here. The
tar file is kept and used again until any of that changes.

Failure modes: Unusable, with the reason, when this is no Debian or its sources are unknown.
"""

import glob
import hashlib
import os
import shutil
import subprocess
import tempfile

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
RELEASES = ("bookworm", "trixie")
# What of apt's configuration is about reaching a mirror.
APT_SETTINGS = ("Acquire::http", "Acquire::Check-", "Acquire::Max-", "Acquire::Retries",
                "Acquire::Force", "Acquire::Queue")
# The repositories whose lists apt has read.
INDEXES = ["apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME) $(COMPONENT)",
           "Created-By: Packages"]
DPKG_SLIM = """force-unsafe-io
path-exclude=/usr/share/doc/*
path-include=/usr/share/doc/*/copyright
path-exclude=/usr/share/man/*
path-exclude=/usr/share/locale/*
"""
LIMIT_S = 400


class Unusable(Exception):
    """No base image can be made here; the text says why."""


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def release():
    """The code name of this Debian."""
    try:
        with open("/etc/os-release", encoding="utf-8") as file:
            fields = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
    except FileNotFoundError:
        fields = {}
    name = fields.get("VERSION_CODENAME", "unknown").strip('"')
    if name not in RELEASES:
        raise Unusable(f"this is '{name}' and none of {', '.join(RELEASES)}")
    return name


def sources(name):
    """(mirror, lines for sources.list) of this release, from what apt has read its lists of."""
    mirror = None
    lines = []
    for line in dict.fromkeys(output(*INDEXES).splitlines()):
        uri, codename, component = (line.split() + ["", "", ""])[:3]
        if component != "main" or codename not in (name, f"{name}-updates", f"{name}-security"):
            continue
        lines.append(f"deb [signed-by={KEYRING}] {uri} {codename} main\n")
        mirror = mirror or (uri if codename == name else None)
    if mirror is None:
        raise Unusable(f"apt has no list of {name} main here (apt-get update makes it)")
    return mirror, "".join(lines)


def apt_settings():
    """The lines of apt's configuration that are about reaching a mirror."""
    return "".join(line + "\n" for line in output("apt-config", "dump").splitlines()
                   if line.startswith(APT_SETTINGS) and not line.endswith('"";')
                   ) + 'Acquire::Languages "none";\n'


def proxy():
    """The proxy that apt uses for http, or None."""
    words = output("apt-config", "shell", "PROXY", "Acquire::http::Proxy").strip()
    value = words.partition("=")[2].strip("'")
    return value if value not in ("", "DIRECT") else None


def write(root, path, text):
    with open(os.path.join(root, path), "w", encoding="utf-8") as file:
        file.write(text)


def make(report, root, name):
    """Fill the directory root with the system."""
    mirror, lines = sources(name)
    env = {**os.environ, **({"http_proxy": proxy()} if proxy() else {})}
    report.run(["debootstrap", "--variant=minbase", f"--keyring={KEYRING}", name, root, mirror],
               LIMIT_S, env=env, what="debootstrap")
    write(root, "etc/apt/sources.list", lines)
    write(root, "etc/apt/apt.conf.d/90host", apt_settings())
    write(root, "etc/dpkg/dpkg.cfg.d/slim", DPKG_SLIM)
    for pattern in ("var/cache/apt/*", "var/lib/apt/lists/*", "usr/share/man/*",
                    "usr/share/locale/*", "var/log/*"):
        for path in glob.glob(os.path.join(root, pattern)):
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    for folder, _, files in os.walk(os.path.join(root, "usr/share/doc")):
        for file in files:
            if file != "copyright":
                os.remove(os.path.join(folder, file))


def tarball(report, directory):
    """(path of the tar file, release); it is made if there is none of this system's settings."""
    name = release()
    if not output(*INDEXES):
        report.run(["apt-get", "-q", "update"], LIMIT_S)
    what = "\n".join([name, *sources(name), apt_settings(), DPKG_SLIM])
    key = hashlib.sha256(what.encode()).hexdigest()[:12]
    path = os.path.join(directory, f"base-{name}-{key}.tar")
    if os.path.exists(path):
        report.note("kept from an earlier run")
        return path, name
    with tempfile.TemporaryDirectory(prefix="base-", dir=directory) as work:
        root = os.path.join(work, "root")
        os.mkdir(root, 0o755)
        make(report, root, name)
        part = os.path.join(work, "tar")
        report.run(["tar", "--numeric-owner", "-C", root, "-cf", part, "."], LIMIT_S)
        os.rename(part, path)
    return path, name
