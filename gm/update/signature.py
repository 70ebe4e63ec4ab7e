"""ed25519 over a manifest's canonical bytes (RFC 8032), with keys that have names so that they can be replaced."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from gm.update.manifest import ManifestRefused, canonical

ALGORITHM = "ed25519"


def verify(content: Mapping[str, Any], keys: Mapping[str, str]) -> bool:
    """Check the signature of a loaded manifest against the public keys that this build trusts.

    Args:
        content: the loaded object with its member `signature`.
        keys: base64 of the 32 bytes of each public key, by name.

    Returns:
        False when there are no keys, so that nothing could be checked; True when the signature is right.

    Raises:
        ManifestRefused: there are keys, and the manifest has no signature by one of them.
    """
    if not keys:
        return False
    signature = content.get("signature")
    if not isinstance(signature, Mapping) or signature.get("algorithm") != ALGORITHM:
        raise ManifestRefused("manifest_refused", "the manifest is not signed")
    name = signature.get("key")
    if not isinstance(name, str) or name not in keys:
        raise ManifestRefused(
            "manifest_refused", f"the manifest is signed by {name!r}, which this build does not trust"
        )
    from nacl.exceptions import CryptoError
    from nacl.signing import VerifyKey

    try:
        value = base64.b64decode(str(signature.get("value")), validate=True)
        VerifyKey(base64.b64decode(keys[name], validate=True)).verify(canonical(content), value)
    except (CryptoError, binascii.Error, ValueError, TypeError) as error:
        raise ManifestRefused("manifest_refused", f"the manifest's signature by {name!r} is wrong") from error
    return True


def sign(content: Mapping[str, Any], name: str, private_key: str) -> dict[str, Any]:
    """Return the manifest with a signature by the private key (base64 of its 32 bytes) of that name.

    Raises:
        ValueError: the key is malformed.
    """
    from nacl.signing import SigningKey

    key = SigningKey(base64.b64decode(private_key, validate=True))
    value = base64.b64encode(key.sign(canonical(content)).signature).decode("ascii")
    return {**content, "signature": {"algorithm": ALGORITHM, "key": name, "value": value}}


def new_key() -> tuple[str, str]:
    """Return a new private key and its public key, both in base64."""
    from nacl.signing import SigningKey

    key = SigningKey.generate()
    return base64.b64encode(bytes(key)).decode("ascii"), base64.b64encode(bytes(key.verify_key)).decode("ascii")
