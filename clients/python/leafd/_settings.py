"""Settings of a client, checked when it is made."""
from __future__ import annotations

import ipaddress
import os
import re
import ssl
import time
from typing import Callable, Generic, List, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union
from urllib.parse import urlsplit

from ._errors import LeafdError, bad_setting

COUNT_MAX = 100000  # of the server (docs/http-api.md)
TEXTS_MAX = 1000  # ids of one call that come as texts
TEXT_MAX = 130  # bytes of an id's text: what a shape can have at most
NAME_MAX_BYTES = 128
KEY_MAX = 128
ENDPOINTS_MAX = 64
MS_MAX = 600000
WINDOW_MAX_MS = AGE_MAX_MS = 86400000

HOST_MAX = 253

LOOK_S = 1.0  # how often it is seen whether a file has changed

Read = TypeVar("Read")

_HOST = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_CONTROL = re.compile("[\x00-\x1f\x7f]")


class Address(NamedTuple):
    """One base URL; with ip, the node at that address of the host's name. Port 0: host is the name of
    an SRV record, whose nodes have addresses of their own."""

    secure: bool
    host: str
    port: int
    ip: Optional[str] = None

    @property
    def is_name(self) -> bool:
        """Whether the host is a name, and no address."""
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return True
        return False

    @property
    def is_service(self) -> bool:
        return self.port == 0

    @property
    def authority(self) -> str:
        """What Host says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        if self.is_service:
            return f"{'https' if self.secure else 'http'}+srv://{self.host}"
        node = f" ({self.ip})" if self.ip else ""
        return f"{'https' if self.secure else 'http'}://{self.authority}{node}"


_TOKEN_RULE = "1 to 1024 printable ASCII characters without a space"


def _is_token(text: object) -> bool:
    return isinstance(text, str) and re.fullmatch(r"[\x21-\x7e]{1,1024}", text) is not None


class Watched(Generic[Read]):
    """What is read of files, again once one has changed; while that fails, as one may be written at
    this moment, what was read last holds."""

    def __init__(self, files: Sequence[Optional[str]], read: Callable[[], Read]) -> None:
        self._files = files
        self._read = read
        self._seen = self._marks()
        self._now = read()
        self._looked = time.monotonic()

    def current(self) -> Read:
        now = time.monotonic()
        if self._files and now - self._looked >= LOOK_S:
            self._looked = now
            marks = self._marks()
            if marks != self._seen:
                try:
                    self._now, self._seen = self._read(), marks
                except (OSError, ValueError, LeafdError):
                    pass  # it is tried again
        return self._now

    def _marks(self) -> List[Optional[Tuple[int, int, int]]]:
        marks: List[Optional[Tuple[int, int, int]]] = []
        for path in self._files:
            try:
                known = os.stat(path or "")
                marks.append((known.st_ino, known.st_size, known.st_mtime_ns))
            except (OSError, TypeError, ValueError):
                marks.append(None)
        return marks


Tls = Watched[ssl.SSLContext]  # whom a client trusts, and what it shows


def token_of(token: Optional[str], path: Optional[str]) -> Watched[Optional[str]]:
    """What is sent as the bearer token: the one given, or the line of a file."""
    if token is not None and not _is_token(token):
        raise bad_setting("token", token, _TOKEN_RULE)
    if path is None:
        return Watched((), lambda: token)
    if token is not None:
        raise bad_setting("token_file", path, "given without token")
    known = path

    def read() -> str:
        with open(known, encoding="utf-8") as file:
            text = file.read(4096).strip()
        if not _is_token(text):
            raise ValueError(f"what is in it is not {_TOKEN_RULE}")
        return text

    try:
        return Watched((path,), read)
    except (OSError, TypeError, ValueError) as error:
        raise bad_setting("token_file", path, f"a file with a token ({error})") from None


class Settings(NamedTuple):
    """All of them, valid."""

    endpoints: List[Address]
    admin_endpoints: List[Address]
    token: Watched[Optional[str]]
    tls: Optional[Tls]
    zone: Optional[str]
    discover: bool
    connect_ms: int
    attempt_ms: int
    deadline_ms: int
    cover_ms: int
    min_count: int
    max_count: int
    window_ms: int
    max_age_ms: int


def whole(name: str, value: object, low: int, high: int) -> int:
    """A whole number from low to high, or bad_setting."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise bad_setting(name, value, f"a whole number from {low} to {high}")
    return value


def text_name(what: str, value: object) -> str:
    """A tag or the name of a holder: 1 to 128 bytes of UTF-8 without control characters."""
    rule = f"1 to {NAME_MAX_BYTES} bytes of UTF-8 without control characters"
    if not isinstance(value, str) or _CONTROL.search(value):
        raise bad_setting(what, value, rule)
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise bad_setting(what, value, rule) from None
    if not 1 <= size <= NAME_MAX_BYTES:
        raise bad_setting(what, value, rule)
    return value


def id_text(value: object) -> str:
    """What may be the text of an id."""
    if not isinstance(value, str) or not re.fullmatch(f"[\x21-\x7e]{{1,{TEXT_MAX}}}", value):
        raise bad_setting("text", value, f"1 to {TEXT_MAX} visible ASCII characters")
    return value


def idempotency_key(value: object) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[\x20-\x7e]{1,128}", value) \
            or value != value.strip(" "):
        raise bad_setting("key", value, f"1 to {KEY_MAX} printable ASCII characters, with no "
                                        "space at its ends")
    return value


def address(name: str, url: object) -> Address:
    """Of one base URL."""
    rule = "a base URL like http://10.0.0.1:8080 or https://leafd.example, or http+srv://NAME"
    if not isinstance(url, str) or re.search(r"[^\x21-\x7e]", url):
        raise bad_setting(name, url, rule)
    service = re.fullmatch(r"(https?)\+srv://([^/]*)/?", url, re.IGNORECASE)
    if service is not None:
        if not _HOST.fullmatch(service[2]) or len(service[2]) > HOST_MAX:
            raise bad_setting(name, url, rule)
        return Address(service[1].lower() == "https", service[2], 0)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise bad_setting(name, url, rule) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") \
            or parts.query or parts.fragment or "@" in parts.netloc or "?" in url or "#" in url \
            or port == 0:
        raise bad_setting(name, url, rule)
    if ":" in parts.hostname:
        try:
            ipaddress.ip_address(parts.hostname)
        except ValueError:
            raise bad_setting(name, url, rule) from None
    elif not _HOST.fullmatch(parts.hostname) or len(parts.hostname) > HOST_MAX:
        raise bad_setting(name, url, rule)
    secure = parts.scheme == "https"
    return Address(secure, parts.hostname, port or (443 if secure else 80))


def addresses(name: str, urls: Union[str, Sequence[str]]) -> List[Address]:
    if isinstance(urls, str):
        urls = [urls]
    if not isinstance(urls, (list, tuple)) or not 1 <= len(urls) <= ENDPOINTS_MAX:
        raise bad_setting(name, urls, f"1 to {ENDPOINTS_MAX} base URLs")
    return list(dict.fromkeys(address(name, url) for url in urls))


def tls_context(ca_file: Optional[str] = None, cert_file: Optional[str] = None,
                key_file: Optional[str] = None) -> ssl.SSLContext:
    """Names are checked, always."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except (OSError, TypeError) as error:
        raise bad_setting("ca_file", ca_file, f"a file of certificates in PEM ({error})") from None
    if cert_file is not None or key_file is not None:
        try:
            context.load_cert_chain(cert_file or "", key_file)
        except (OSError, TypeError) as error:
            raise bad_setting("cert_file", cert_file, "a certificate in PEM, whose key is in "
                              f"key_file={key_file!r} ({error})") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def make(endpoints: Union[str, Sequence[str], None],
         admin_endpoints: Union[str, Sequence[str], None], token: Optional[str],
         token_file: Optional[str], ca_file: Optional[str], cert_file: Optional[str],
         key_file: Optional[str], zone: Optional[str], discover: Optional[bool],
         connect_ms: int, attempt_ms: int, deadline_ms: int, cover_ms: int, min_count: int,
         max_count: int, window_ms: int, max_age_ms: int) -> Settings:
    if endpoints is None:  # then the environment says which cluster, and who is asking
        env = os.environ
        if "LEAFD_ENDPOINTS" not in env:
            raise bad_setting("endpoints", endpoints, "given, here or as LEAFD_ENDPOINTS")
        endpoints = env["LEAFD_ENDPOINTS"].split(",")
        if admin_endpoints is None and "LEAFD_ADMIN_ENDPOINTS" in env:
            admin_endpoints = env["LEAFD_ADMIN_ENDPOINTS"].split(",")
        if token is None and token_file is None:
            token, token_file = env.get("LEAFD_TOKEN"), env.get("LEAFD_TOKEN_FILE")
        ca_file = ca_file or env.get("LEAFD_CA_FILE")
        cert_file = cert_file or env.get("LEAFD_CERT_FILE")
        key_file = key_file or env.get("LEAFD_KEY_FILE")
        zone = env.get("LEAFD_ZONE") if zone is None else zone
        if discover is None and "LEAFD_DISCOVER" in env:
            text = env["LEAFD_DISCOVER"]
            if text not in ("true", "false"):
                raise bad_setting("discover", text, "true or false")
            discover = text == "true"
    if discover is not None and not isinstance(discover, bool):
        raise bad_setting("discover", discover, "True or False")
    ids = addresses("endpoints", endpoints)
    admin = ids if admin_endpoints is None else addresses("admin_endpoints", admin_endpoints)
    secure = any(one.secure for one in ids + admin)
    files = (ca_file, cert_file, key_file)
    secure = secure or files != (None, None, None)
    tls = Watched(files, lambda: tls_context(*files)) if secure else None
    low = whole("min_count", min_count, 1, COUNT_MAX)
    return Settings(
        ids, admin, token_of(token, token_file), tls,
        None if zone is None else text_name("zone", zone),
        zone is not None if discover is None else discover,
        whole("connect_ms", connect_ms, 1, MS_MAX), whole("attempt_ms", attempt_ms, 1, MS_MAX),
        whole("deadline_ms", deadline_ms, 1, MS_MAX), whole("cover_ms", cover_ms, 1, MS_MAX),
        low, whole("max_count", max_count, low, COUNT_MAX),
        whole("window_ms", window_ms, 1000, WINDOW_MAX_MS),
        whole("max_age_ms", max_age_ms, 1, AGE_MAX_MS))
