"""Where this gm gets its updates from and whom it trusts, or why it does not update."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from gm.errors import GmError
from gm.system.builds import own_build
from installer.build import BuildInfo, read_build
from installer.config import read_config
from installer.layout import Home


@dataclass(frozen=True, slots=True)
class Source:
    """The URL of a manifest and the keys that may have signed it."""

    url: str
    keys: Mapping[str, str]
    target: str


@dataclass(frozen=True, slots=True)
class NoSource:
    """Why this gm does not update, as a sentence for people; `automatic` when only by itself it does not."""

    reason: str


def find_source(home: Home, *, automatic: bool) -> Source | NoSource:
    """Return where the running build gets its updates from.

    The environment (`GMNEW_UPDATE_URL`) goes before `config.json` in gm's home, and that before the build. The keys
    are those of `config.json`, else the build's.

    Args:
        home: gm's home.
        automatic: whether nobody asked for this check; `GMNEW_AUTO_UPDATE=0` and `CI` forbid only those.
    """
    folder = own_build()
    if folder is None:
        return NoSource("this gm does not run from an installed build, so it never updates")
    try:
        info = read_build(folder)
    except GmError as error:
        return NoSource(error.message)
    return source_of(home, info, os.environ, automatic=automatic)


def source_of(home: Home, info: BuildInfo, environment: Mapping[str, str], *, automatic: bool) -> Source | NoSource:
    """Return where the build `info` gets its updates from; `find_source` for any build and environment."""
    if info.development:
        return NoSource("this is a development build, which never updates")
    if automatic and environment.get("GMNEW_AUTO_UPDATE", "").lower() in ("0", "false", "no", "off"):
        return NoSource("GMNEW_AUTO_UPDATE turns automatic updates off")
    if automatic and environment.get("CI", "").lower() in ("1", "true"):
        return NoSource("there are no automatic updates in CI")
    try:
        config = read_config(home)
    except GmError as error:  # the public release in the place of a private mirror would be nobody's wish
        return NoSource(error.message)
    keys = dict(info.public_keys) if config.public_keys is None else config.public_keys
    for url, place in (
        (environment.get("GMNEW_UPDATE_URL"), "GMNEW_UPDATE_URL"),
        (config.update_url, f"updateUrl in {home.config}"),
        (info.update_url, "the update URL of this build"),
    ):
        if url:
            if not url.startswith(("https://", "http://")):
                return NoSource(f"{place} is no http or https URL: {url}")
            return Source(url, keys, info.target)
    return NoSource("this build carries no update URL; GMNEW_UPDATE_URL or updateUrl in config.json can name one")
