"""The manifest: what the newest build of each target is, where it lies, and who says so (docs/distribution.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from gm.errors import GmError

SCHEMA = 1
MAX_BYTES = 1_000_000
_FILE = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+-]{0,199}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_]{0,60}")


class ManifestRefused(GmError):
    """What was answered is no manifest that this build can trust or read."""


@dataclass(frozen=True, slots=True)
class TargetEntry:
    """The newest build of one target; `serial` and `version` are older than the manifest's when it did not build."""

    version: str
    serial: int
    build: str
    file: str
    sha256: str
    size: int

    def as_json(self) -> dict[str, Any]:
        """Return the entry as it stands in the manifest."""
        return {
            "version": self.version,
            "serial": self.serial,
            "build": self.build,
            "file": self.file,
            "sha256": self.sha256,
            "size": self.size,
        }

    def url(self, manifest_url: str) -> str:
        """Return where the archive lies: beside the URL that was asked for the manifest."""
        return urljoin(manifest_url, self.file)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest without its signature."""

    serial: int
    version: str
    commit: str
    created: str
    targets: Mapping[str, TargetEntry]

    def as_json(self) -> dict[str, Any]:
        """Return the object that is signed."""
        return {
            "schema": SCHEMA,
            "serial": self.serial,
            "version": self.version,
            "commit": self.commit,
            "created": self.created,
            "targets": {name: entry.as_json() for name, entry in sorted(self.targets.items())},
        }


def canonical(content: Mapping[str, Any]) -> bytes:
    """Return the bytes that a signature covers: everything but `signature`, keys sorted, no white space."""
    signed = {key: value for key, value in content.items() if key != "signature"}
    return json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def load(body: bytes) -> dict[str, Any]:
    """Return the JSON object in `body`.

    Raises:
        ManifestRefused: it is too long, no JSON or no object.
    """
    if len(body) > MAX_BYTES:
        raise ManifestRefused("manifest_refused", f"the manifest is longer than {MAX_BYTES} bytes")
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ManifestRefused("manifest_refused", f"the manifest is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise ManifestRefused("manifest_refused", "the manifest is no JSON object")
    return content


def read(content: Mapping[str, Any]) -> Manifest:
    """Return the manifest that a loaded object describes; unknown members are ignored.

    Raises:
        ManifestRefused: a member is missing or malformed, or the schema is a newer one.
    """
    if content.get("schema") != SCHEMA:
        raise ManifestRefused("manifest_refused", f"the manifest has schema {content.get('schema')!r}, not {SCHEMA}")
    try:
        targets = {str(name): _entry(entry) for name, entry in content["targets"].items()}
        return Manifest(
            serial=_number(content["serial"]),
            version=_text(content["version"], _VERSION),
            commit=str(content["commit"]),
            created=str(content["created"]),
            targets=targets,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ManifestRefused("manifest_refused", f"the manifest lacks or garbles {error}") from error


def _entry(entry: Mapping[str, Any]) -> TargetEntry:
    return TargetEntry(
        version=_text(entry["version"], _VERSION),
        serial=_number(entry["serial"]),
        build=_text(entry["build"], _SHA256),
        file=_text(entry["file"], _FILE),
        sha256=_text(entry["sha256"], _SHA256),
        size=_number(entry["size"]),
    )


def _text(value: Any, form: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not form.fullmatch(value) or ".." in value:
        raise ValueError(repr(value))
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(repr(value))
    return value
