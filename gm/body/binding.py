"""The `gm` object inside a body: every verb as an async function, `gm.attempt`, `gm.verbs`, and their documentation.

Standard library only.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import json
import os
import re
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from gm.body.link import Link, encode
from gm.errors import GmError, UsageError


class UnknownVerb(UsageError, AttributeError):
    """There is no verb of that name; an AttributeError too, so that `hasattr(gm, name)` works."""


class Verbs:
    """Calls to the worker and the table of verbs: what the `gm` object needs and does not show.

    Args:
        link: the body's channel.
        table: the line with the verbs, `{name: [[wire parameters], signature, summary]}`, and with the beginnings of
            names that only the worker can tell yet; parsed on first use.
    """

    def __init__(self, link: Link, table: bytes) -> None:
        self._link = link
        self._raw = table
        self._table: dict[str, tuple[list[str], str, str]] | None = None
        self._awaited: tuple[str, ...] = ()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[asyncio.AbstractEventLoop, asyncio.Future[Any], int]] = {}
        self._thread = threading.get_ident()

    @property
    def table(self) -> dict[str, tuple[list[str], str, str]]:
        """Parameters, signature and summary of every verb."""
        if self._table is None:
            told = json.loads(self._raw)
            self._table, self._awaited = told["verbs"], tuple(told.get("awaited", ()))
        return self._table

    def may_come(self, name: str) -> bool:
        """Whether a name that is not in the table belongs to a server that did not run when the body began."""
        return name not in self.table and name.startswith(self._awaited)

    async def call(self, verb: str, arguments: dict[str, Any]) -> Any:
        """Call a verb and return its result.

        Raises:
            GmError: what the verb raised.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        number = next(self._numbers)
        self._waiting[number] = (loop, future, threading.get_ident())
        try:
            try:
                self._link.send({"call": number, "verb": verb, "arguments": arguments})
            except (TypeError, ValueError) as error:
                raise _not_json(verb, arguments, error) from None
            return await future
        finally:
            self._waiting.pop(number, None)

    def documentation(self, verb: str) -> str:
        """Return a verb's documentation; blocks until the worker has answered."""
        known = verb if self.may_come(verb) else self.table[verb][1]
        if threading.get_ident() != self._thread:
            return known
        number = next(self._numbers)
        self._link.send({"help": number, "verb": verb})
        while True:
            line = self._link.read_line()
            answer = json.loads(line)
            if answer.get("id") == number:
                return str(answer.get("ok") or known)
            self.receive(line)

    def receive(self, line: bytes) -> None:
        """Take an answer of the worker; called on the body's event loop."""
        if not line:
            os._exit(0)
        answer = json.loads(line)
        waiting = self._waiting.pop(answer["id"], None)
        if waiting is None:
            return
        loop, future, future_thread = waiting
        if future_thread == threading.get_ident():
            _settle(future, answer)
        else:
            loop.call_soon_threadsafe(_settle, future, answer)


def _settle(future: asyncio.Future[Any], answer: dict[str, Any]) -> None:
    if future.done():
        return
    if "error" in answer:
        error = dict(answer["error"])
        code, message, hint = error.pop("code"), error.pop("message"), error.pop("hint", "")
        future.set_exception(GmError(code, message, hint, **error))
    else:
        future.set_result(answer.get("ok"))


class VerbFunction:
    """One verb: `await gm.read_file(path="a.txt")`, or with one dict, or with its parameters in order."""

    def __init__(self, verbs: Verbs, name: str) -> None:
        self._verbs = verbs
        self.__name__ = self.__qualname__ = name

    def __call__(self, /, *positional: Any, **named: Any) -> Coroutine[Any, Any, Any]:
        """Start nothing yet; the call happens when the result is awaited."""
        arguments = self._arguments(positional, named) if positional else named
        call = self._verbs.call(self.__name__, arguments)
        named_call: Any = call
        named_call.__qualname__ = f"gm.{self.__name__}"  # what "was never awaited" names
        return call

    def _arguments(self, positional: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        if len(positional) == 1 and isinstance(positional[0], dict):
            return {**positional[0], **named}
        if self._verbs.may_come(self.__name__):
            message = (
                f"The parameters of {self.__name__} are not known yet: its server did not run at the body's start."
            )
            raise UsageError("unknown_parameter", message, "Name them: gm.verb(parameter=value).")
        parameters, signature, _ = self._verbs.table[self.__name__]
        if len(positional) > len(parameters):
            raise UsageError(
                "unknown_parameter",
                f"{self.__name__} takes at most {len(parameters)} arguments, not {len(positional)}.",
                f"The call is {signature}.",
            )
        return {**dict(zip(parameters, positional, strict=False)), **named}

    @property
    def documentation(self) -> str:
        """The verb's whole documentation."""
        return self._verbs.documentation(self.__name__)

    def __repr__(self) -> str:
        may_come = self._verbs.may_come(self.__name__)
        return f"<gm.{self.__name__ if may_come else self._verbs.table[self.__name__][1]}>"


def _not_json(verb: str, arguments: dict[str, Any], error: Exception) -> UsageError:
    """Return the error that names the argument which is neither JSON nor a path."""
    for name, value in arguments.items():
        try:
            encode({name: value})
        except (TypeError, ValueError):
            message = f"{verb}: `{name}` is no JSON value: {error}."
            return UsageError("wrong_type", message, "Verbs take text, numbers, true/false, lists and dicts.")
    return UsageError("wrong_type", f"{verb}: the arguments are no JSON values: {error}.")


class Gm:
    """The `gm` of a body."""

    Error = GmError

    def __init__(self, verbs: Verbs) -> None:
        self._verbs = verbs

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        if name == "try":
            return self.attempt
        if name not in self._verbs.table and not self._verbs.may_come(name):
            from difflib import get_close_matches

            near = get_close_matches(name, self._verbs.table, n=3)
            hint = f"Did you mean {' or '.join(f'gm.{n}' for n in near)}?" if near else "gm.verbs() lists all verbs."
            raise UnknownVerb("unknown_verb", f"There is no verb named `{name}`.", hint)
        function = VerbFunction(self._verbs, name)
        self.__dict__[name] = function
        return function

    def __dir__(self) -> list[str]:
        return ["Error", "attempt", "try", "verbs", *self._verbs.table]

    def __repr__(self) -> str:
        return f"<gm: {len(self._verbs.table)} verbs; gm.verbs() lists them>"

    async def attempt(self, what: Any) -> Any:
        """Return the value of an awaitable or a function, or its error as `{"ok": False, "error": {…}}`."""
        try:
            value = what() if callable(what) else what
            return await value if inspect.isawaitable(value) else value
        except GmError as error:
            return {"ok": False, "error": error.as_json()}
        except Exception as error:  # noqa: BLE001 - the purpose is to hand any error back as data
            described = {"code": "exception", "message": f"{type(error).__name__}: {error}", "hint": ""}
            return {"ok": False, "error": described}

    def verbs(self, query: str | None = None) -> list[str]:
        """Return the verbs' signatures with their first sentences; with a query only those that hold its words."""
        words = (query or "").lower().split()
        found = []
        for name, (_, signature, summary) in self._verbs.table.items():
            text = f"{signature} {summary}".lower()
            if all(word in text for word in words):
                found.append((not any(word in name for word in words), f"{signature}: {summary}"))
        return [text for _, text in sorted(found, key=lambda item: item[0])]


def make_help(gm: Gm) -> Callable[..., None]:
    """Return the `help` of a body: a verb's documentation, the list of verbs, or Python's own help."""

    def show_help(what: Any = gm) -> None:
        """Print the documentation of a verb, of `gm`, or of anything else."""
        if isinstance(what, VerbFunction):
            print(what.documentation)
        elif what is gm:
            print("\n".join(gm.verbs()))
        else:
            import pydoc

            print(re.sub(".\b", "", pydoc.render_doc(what)))

    return show_help
