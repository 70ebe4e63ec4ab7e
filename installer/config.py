"""`config.json` in gm's home: where a user's builds come from and whose signatures count; written by nobody else."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from dataclasses import dataclass

from gm.errors import Refused
from installer.layout import Home


@dataclass(frozen=True, slots=True)
class Config:
    """The content of `config.json`; None for what it leaves to the build."""

    update_url: str | None = None
    public_keys: Mapping[str, str] | None = None


def read_config(home: Home) -> Config:
    """Return what `config.json` says; nothing when there is none.

    Raises:
        Refused: it says nothing that can be followed.
    """
    try:
        content = json.loads(home.config.read_bytes().removeprefix(codecs.BOM_UTF8))
    except FileNotFoundError:
        return Config()
    except OSError as error:
        raise _refused(home, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise _refused(home, f"is not JSON: {error}") from error
    if not isinstance(content, dict):
        raise _refused(home, "holds no object")
    url, keys = content.get("updateUrl"), content.get("publicKeys")
    if url is not None and not isinstance(url, str):
        raise _refused(home, "has an updateUrl that is no text")
    if keys is not None and not (isinstance(keys, dict) and all(isinstance(key, str) for key in keys.values())):
        raise _refused(home, 'has publicKeys that are no object {"name": "base64"}')
    return Config(url, keys)


def _refused(home: Home, reason: str) -> Refused:
    return Refused("config_unreadable", f"{home.config} {reason}", "mend or remove the file")
