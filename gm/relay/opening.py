"""How the host opened the connection, and the frames that open a worker's SDK session in the same way."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from gm import __version__
from gm.protocol.versions import (
    CLIENT_CAPABILITIES_META_KEY,
    HANDSHAKE_VERSIONS,
    STATELESS_VERSION,
    VERSION_META_KEY,
    negotiate,
    sdk_version,
)
from gm.relay.frames import INVALID_PARAMS, UNSUPPORTED_VERSION, Frame

OPENING_ID = "gm-relay-open"
"""The id of the relay's own `initialize`; it is not counted among the host's requests."""

OPENING_KEY = f'"{OPENING_ID}"'


class Opening(NamedTuple):
    """What the host opened: a handshake in a version, or the stateless era, which has nothing to open.

    Attributes:
        version: the handshake version that was agreed upon; None in the stateless era.
        client: the host's `clientInfo` and `capabilities`, cleaned, as JSON text.
    """

    version: str | None
    client: str = "{}"

    @property
    def is_stateless(self) -> bool:
        """Whether the host opened nothing and sends version and capabilities with every request."""
        return self.version is None

    def bare(self) -> Opening:
        """Return the same opening without anything that the host said of itself."""
        return self._replace(client=_NOBODY)

    def frames(self) -> bytes:
        """Return what opens a worker's session: `initialize` and `notifications/initialized`, or nothing."""
        if self.version is None:
            return b""
        version = json.dumps(sdk_version(self.version))
        return (
            f'{{"jsonrpc":"2.0","id":{OPENING_KEY},"method":"initialize",'
            f'"params":{{"protocolVersion":{version},{self.client[1:]}}}\n'
            '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
        ).encode("ascii")

    def problem(self, answer: bytes) -> str | None:
        """Return what is wrong with a worker's answer to the opening; None when the session is open as asked."""
        value = json.loads(answer)
        if "error" in value:
            return f"the worker refused the opening: {json.dumps(value['error'])}"
        result = value.get("result")
        agreed = result.get("protocolVersion") if isinstance(result, dict) else None
        if self.version is not None and agreed != sdk_version(self.version):
            return f"the worker opened {agreed} instead of {sdk_version(self.version)}"
        return None


STATELESS = Opening(None)


def of_initialize(params: dict[str, Any]) -> Opening:
    """Return the opening that an `initialize` asks for; whatever it holds, it is answered."""
    return Opening(negotiate(params.get("protocolVersion")), _client(params))


def of_request(frame: Frame) -> Opening | None:
    """Return the era that a request by itself shows: stateless with the envelope, else None."""
    return STATELESS if VERSION_META_KEY in frame.meta else None


def names_handshake(frame: Frame) -> bool:
    """Tell an envelope that names a version of the handshake era, which belongs to no era and gets an error."""
    return frame.meta.get(VERSION_META_KEY) in HANDSHAKE_VERSIONS


def discover_problem(frame: Frame, served: list[str]) -> tuple[int, str, dict[str, Any] | None] | None:
    """Return code, message and data of the error that answers a `server/discover`; None when it is answered.

    Without an envelope it is always answered. An envelope is held to what every later request will be held to, so that
    a client whose requests would be refused learns it here and falls back to `initialize` (MCP 2026-07-28).
    """
    if VERSION_META_KEY not in frame.meta:
        return None
    version = frame.meta[VERSION_META_KEY]
    if not isinstance(version, str):
        return INVALID_PARAMS, f"_meta.{VERSION_META_KEY} must be a string", None
    if version not in (STATELESS_VERSION, *HANDSHAKE_VERSIONS):
        data = {"supported": served, "requested": version}
        return UNSUPPORTED_VERSION, "Unsupported protocol version", data
    if version == STATELESS_VERSION and not isinstance(frame.meta.get(CLIENT_CAPABILITIES_META_KEY), dict):
        return INVALID_PARAMS, f"_meta.{CLIENT_CAPABILITIES_META_KEY} must be an object", None
    return None


def _client(params: dict[str, Any]) -> str:
    """Return what the SDK accepts of the host's words about itself; it would refuse the opening for the rest."""
    info = params.get("clientInfo")
    info = info if isinstance(info, dict) else {}
    told = {name: info[name] for name in ("name", "version", "title") if isinstance(info.get(name), str)}
    capabilities = params.get("capabilities")
    capabilities = capabilities if isinstance(capabilities, dict) else {}
    cleaned = {name: _members(name, value) for name, value in capabilities.items() if isinstance(value, dict)}
    return json.dumps({"clientInfo": {"name": "", "version": "", **told}, "capabilities": cleaned})


def _members(capability: str, value: dict[str, Any]) -> dict[str, Any]:
    wanted = bool if capability == "roots" else dict
    return {name: member for name, member in value.items() if isinstance(member, wanted)}


_NOBODY = json.dumps({"clientInfo": {"name": "gm-relay", "version": __version__}, "capabilities": {}})

NEWEST_HANDSHAKE = Opening(HANDSHAKE_VERSIONS[0], _NOBODY)
"""What a worker is opened with for a host that sends requests without having opened anything."""
