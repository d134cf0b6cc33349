"""Finds missing or unusable files, folders and Python packages that a configuration needs."""

import ssl
import stat
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tmpmaild.config.settings import Config
from tmpmaild.config.validators import parse_endpoint
from tmpmaild.errors import StartError
from tmpmaild.host.sockets import CREDENTIALS, load_certificate

_MADE_BY_SYSTEMD: Final = (Path("/run"), Path("/var/lib"))
"""The parents of a unit's RuntimeDirectory= and StateDirectory=, which systemd creates when the unit starts."""


def missing(config: Config) -> Iterator[str]:
    """Yield a line for each file, folder or package that is missing or cannot be used."""
    pair = (config.smtp.tls_certificate, config.smtp.tls_key)
    if all(pair) and not any(map(_is_handed_over, pair)):
        try:
            load_certificate(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), config.smtp)
        except StartError as error:
            yield str(error)
    if (password := config.storage.password_file) and not _is_handed_over(password):
        try:
            Path(password).read_bytes()
        except OSError as error:
            yield f"storage.password_file: {password}: {error.strerror or error}"
    for key, path in _files_to_make(config):
        if _is_folder(path):
            yield f"{key}: {path}: is a folder; expected a file"
        folder = path.absolute().parent
        if _is_folder(folder) is False and folder.parent not in _MADE_BY_SYSTEMD:
            yield f"{key}: {folder}: no such folder"
    for key, value, packages in (
        ("storage.url", config.storage.url, ("asyncpg",)),
        ("senders.resolver", config.senders.resolver, ("dns", "dkim", "spf", "publicsuffixlist")),
    ):
        absent = [name for name in packages if value and find_spec(name) is None]
        if absent:
            yield f"{key}: needs Python packages that are not installed: {', '.join(absent)}"


def _is_folder(path: Path) -> bool | None:
    """Return whether a path is a folder; None if only a different user, such as the service's, may know this."""
    try:
        return stat.S_ISDIR(path.stat().st_mode)
    except PermissionError:
        return None
    except OSError:
        return False


def _is_handed_over(file: str) -> bool:
    """Return whether a file is a credential (LoadCredential=), which exists only while the service runs."""
    return CREDENTIALS in Path(file).parents and not Path(file).exists()


def _files_to_make(config: Config) -> Iterator[tuple[str, Path]]:
    if not config.storage.url:
        yield "storage.path", Path(config.storage.path)
    if config.control.listen not in ("", "off"):
        yield "control.listen", Path(parse_endpoint(config.control.listen).path)
    for key, places in (("http.listen", config.http.listen), ("metrics.listen", [config.metrics.listen])):
        for place in places:
            if place.startswith("unix:"):
                yield key, Path(parse_endpoint(place).path)
