"""The form of the sections `refactor` and `runtime` of `gmloop.json`: which keys they may have, and of what type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong in a section.

    Attributes:
        where: the way to it from the top, as in ``runtime.liveReload.build``.
        key: an unknown key there; an empty string when the value itself is wrong.
        known: the keys that it may have.
        value: the wrong value.
        expected: what that must be.
    """

    where: str
    key: str = ""
    known: tuple[str, ...] = ()
    value: object = None
    expected: str = ""


@dataclass(frozen=True, slots=True)
class _Form:
    """An object.

    Attributes:
        members: the form of each key's value: another object, ``text``, ``texts``, or the words to choose from; None
            where any key may stand.
        switch: false may stand in its place.
    """

    members: Mapping[str, _Form | str | tuple[str, ...]] | None
    switch: bool = False


_CODEMODS: Final = (
    *("scientificNotation", "loopLengthHoisting", "docCommentAlignment", "withSelfUnwrap", "namingConvention"),
    *("repairLogicalNot", "repairArgumentSeparators", "repairUppercaseOperators", "repairEventCallbackOther"),
    *("repairDependentVariableDeclarations", "repairTexturePrefetchGuard", "repairInvalidTexturePointerGuard"),
    *("repairAudioEmitterCreationGuard", "repairSpriteTextureUvResolution"),
)
_BUILD_TEXTS: Final = (
    *("configuration", "project", "toolPath", "runtimeRoot", "userFolder", "licenseFile", "cacheDir", "tempDir"),
)
SECTIONS: Final = {
    "refactor": _Form(
        {
            "codemods": _Form(
                {
                    "globalvarToGlobal": _Form({"excludeNames": "texts"}, switch=True),
                    **dict.fromkeys(_CODEMODS, _Form(None, switch=True)),
                }
            )
        }
    ),
    "runtime": _Form(
        {
            "liveReload": _Form(
                {
                    "build": _Form(
                        {
                            "backend": ("auto", "gm-cli", "igor"),
                            **dict.fromkeys(_BUILD_TEXTS, "text"),
                            "extraArgs": "texts",
                        }
                    ),
                    "html5Output": "text",
                    "gmTempRoot": "text",
                }
            )
        }
    ),
}


def faults(where: str, value: object, form: _Form | str | tuple[str, ...]) -> Iterator[Fault]:
    """Yield what is wrong in a section: unknown keys and values of another type."""
    if isinstance(form, tuple):
        if value not in form:
            yield Fault(where, value=value, expected=f"One of {', '.join(form)}.")
    elif isinstance(form, str):
        texts = [value] if form == "text" else value if isinstance(value, list) else [None]
        if not all(isinstance(text, str) for text in texts):
            yield Fault(where, value=value, expected="A string." if form == "text" else "A list of strings.")
    elif not isinstance(value, dict):
        if value is not False or not form.switch:
            expected = "An object with its options, or false." if form.switch else "An object."
            yield Fault(where, value=value, expected=expected)
    elif form.members is not None:
        for key, member in value.items():
            if key in form.members:
                yield from faults(f"{where}.{key}", member, form.members[key])
            else:
                yield Fault(where, key=key, known=tuple(form.members))
