"""`python -m release build | manifest | publish | verify | prune | mirror | scripts | key`."""

from __future__ import annotations

import base64
import binascii
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import click

from gm.errors import GmError
from release.publish import Source
from release.store import FolderStore, Store

KEY_VARIABLE = "GMNEW_SIGNING_KEY"
"""`name=base64`: the key's name and the private key; never an argument, which other users could read."""

PUBLIC_VARIABLE = "GMNEW_PUBLIC_KEYS"
"""`name=base64` words: where no `--public-key` is named, the public keys are these."""

_FETCHES = 5


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def release() -> None:
    """Make and publish releases of gm."""


store_options = (
    click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="The store is this folder."),
    click.option("--repository", help="The store is this GitHub repository's release, through gh."),
    click.option("--tag", default="latest", show_default=True, help="The release's tag."),
)


Command = TypeVar("Command", bound=Callable[..., object])

with_public_keys = click.option(
    "--public-key",
    "public_keys",
    multiple=True,
    envvar=PUBLIC_VARIABLE,
    help=f"name=base64 of a key that may sign (at most two); {PUBLIC_VARIABLE} holds them as well.",
)


def with_store(command: Command) -> Command:
    """Give a command the options that name a store."""
    for option in reversed(store_options):
        command = option(command)
    return command


def open_store(folder: Path | None, repository: str | None, tag: str) -> Store:
    """Return the store that the options name."""
    if (folder is None) == (repository is None):
        raise click.UsageError("name one store: --folder or --repository")
    if folder is not None:
        return FolderStore(folder)
    from release.github import GitHubStore

    assert repository is not None
    return GitHubStore(repository, tag)


def parse_keys(texts: tuple[str, ...]) -> dict[str, str]:
    """Return `name=base64` texts as a table: what is wrong here would be wrong in every build, for ever."""
    keys: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            size = len(base64.b64decode(value, validate=True))
        except (binascii.Error, ValueError):
            size = 0
        if not name or size != 32:
            raise click.BadParameter(f"{text!r} is not name=base64 of a public key", param_hint="--public-key")
        if name in keys:
            raise click.BadParameter(f"{name!r} is named twice", param_hint="--public-key")
        keys[name] = value
    if len(keys) > 2:
        raise click.BadParameter("a build trusts two keys at most", param_hint="--public-key")
    return keys


def signing_key() -> tuple[str, str] | None:
    """Return name and private key from the environment; None when it holds none."""
    text = os.environ.get(KEY_VARIABLE, "").strip()
    if not text:
        return None
    name, _, value = text.partition("=")
    if not name or not value:
        raise click.UsageError(f"{KEY_VARIABLE} is not name=base64")
    return name, value


@contextmanager
def open_source(url: str) -> Iterator[Source]:
    """Give what reads the files of a release beside its manifest's URL, as users do.

    The manifest is missing for about a second while it is replaced; so what does not answer is asked again.
    """
    from urllib.parse import urljoin

    import httpx2

    from gm.update.transport import open_client
    from release.freeze import ReleaseFailed

    with open_client() as client:

        def fetch(name: str) -> bytes | None:
            failure: Exception | None = None
            for attempt in range(_FETCHES):
                if attempt:
                    time.sleep(attempt)
                try:
                    response = client.get(url if name == "manifest.json" else urljoin(url, name))
                except httpx2.HTTPError as error:
                    failure = error
                    continue
                if response.status_code == 200:
                    return response.content
            if failure is not None:
                raise ReleaseFailed("no_answer", f"{url} does not answer: {failure}") from failure
            return None

        yield fetch


@release.command()
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Where to leave it.")
@click.option("--update-url", help="The manifest's URL that the build asks; without it a development build is made.")
@with_public_keys
def build(out: Path, update_url: str | None, public_keys: tuple[str, ...]) -> None:
    """Freeze this checkout for this machine's target; leave folder, archive and entry in DIR."""
    from release.freeze import freeze, read_stamp
    from release.pack import pack
    from release.publish import check_url, write_entry

    keys = parse_keys(public_keys)
    stamp = read_stamp(update_url=None if update_url is None else check_url(update_url), public_keys=keys)
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    folder = freeze(out, stamp)
    entry = pack(folder, out)
    target = folder.name.removeprefix("gmnew-")
    write_entry(out, target, entry)
    unpacked = sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    info = json.loads((folder / "build.json").read_bytes())
    click.echo(f"{entry.file}  {entry.size / 1e6:.1f} MB, unpacked {unpacked / 1e6:.1f} MB")
    click.echo(f"build {entry.build}  sha256 {entry.sha256}")
    if info.get("glibc"):
        click.echo(f"needs glibc {info['glibc']} or newer")
    if info["development"]:
        click.echo("a development build: it carries no update URL and never updates")


@release.command()
@click.option("--in", "folder_in", type=click.Path(path_type=Path, exists=True), required=True, help="Built archives.")
@with_store
def manifest(folder_in: Path, folder: Path | None, repository: str | None, tag: str) -> None:
    """Print the manifest that `publish` would upload, unsigned; fail where it would refuse."""
    from release.freeze import read_stamp
    from release.publish import Head, earlier_manifest, make_manifest, read_entries

    stamp = read_stamp()
    store = open_store(folder, repository, tag)
    store.check()
    earlier = earlier_manifest(store, stamp.serial)
    made = make_manifest(earlier, read_entries(folder_in), Head(stamp.serial, stamp.version, stamp.commit, _now()))
    click.echo(json.dumps(made.as_json(), indent=1))


@release.command()
@click.option("--in", "folder_in", type=click.Path(path_type=Path, exists=True), required=True, help="Built archives.")
@click.option("--summary", type=click.Path(path_type=Path), help="Append a summary in Markdown to this file.")
@click.option("--unsigned", is_flag=True, help=f"Publish without a signature; else {KEY_VARIABLE} holds name=base64.")
@click.option("--update-url", help="Publish the install scripts too, with this URL of the manifest in them.")
@with_public_keys
@with_store
def publish(
    folder_in: Path,
    summary: Path | None,
    unsigned: bool,
    update_url: str | None,
    public_keys: tuple[str, ...],
    folder: Path | None,
    repository: str | None,
    tag: str,
) -> None:
    """Upload archives, check them, upload the signed manifest last, and remove what nothing names."""
    from release.freeze import read_stamp
    from release.publish import Head, check_keys, install_scripts
    from release.publish import publish as publish_release

    key = signing_key()
    if key is not None and unsigned:
        raise click.UsageError(f"--unsigned, but {KEY_VARIABLE} is set")
    check_keys(key, parse_keys(public_keys))
    if key is None and not unsigned:
        raise click.UsageError(f"{KEY_VARIABLE} holds no name=base64; --unsigned publishes without a signature")
    stamp = read_stamp()
    done = publish_release(
        open_store(folder, repository, tag),
        folder_in,
        Head(stamp.serial, stamp.version, stamp.commit, _now()),
        key=key,
        scripts=None if update_url is None else install_scripts(update_url),
        say=click.echo,
    )
    lines = [f"## {done.manifest.version} (serial {done.manifest.serial})", ""]
    lines += [f"- {target}: {entry.version}, `{entry.build[:12]}`" for target, entry in done.manifest.targets.items()]
    lines += [
        f"- **{target} did not build and keeps {done.manifest.targets[target].version}**" for target in done.carried
    ]
    lines += [f"- {target}: no bundled file changed, nobody downloads" for target in done.same]
    lines += [f"- **{target} has no build at all**" for target in done.missing]
    lines += [f"- removed: {', '.join(done.removed)}"] if done.removed else []
    click.echo("\n".join(lines))
    if summary is not None:
        with summary.open("a", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


@release.command()
@with_public_keys
@click.option("--url", help="Check what this manifest's URL answers, as users ask it, in the place of a store.")
@click.option("--this-commit", is_flag=True, help="Fail unless the manifest is the one of this checkout's commit.")
@with_store
def verify(
    public_keys: tuple[str, ...],
    url: str | None,
    this_commit: bool,
    folder: Path | None,
    repository: str | None,
    tag: str,
) -> None:
    """Check what is live: the manifest's signature and every archive's sha256."""
    from release.freeze import ReleaseFailed, read_stamp
    from release.publish import check_url, verify_source, verify_store

    keys = parse_keys(public_keys)
    if url is None:
        found = verify_store(open_store(folder, repository, tag), keys)
    elif folder is not None or repository is not None:
        raise click.UsageError("name one place: --url, --folder or --repository")
    else:
        with open_source(check_url(url)) as source:
            found = verify_source(source, keys)
    if this_commit and found.commit != read_stamp().commit:
        raise ReleaseFailed("other_commit", f"the live manifest is the one of {found.commit[:12]}, not of this commit")
    signed = "signed" if keys else "not checked for a signature, since there is no public key"
    click.echo(f"{found.version} (serial {found.serial}), {signed}: {len(found.targets)} archives are right")


@release.command()
@with_store
def prune(folder: Path | None, repository: str | None, tag: str) -> None:
    """Remove what neither the live manifest nor one of the last three names."""
    from release.publish import prune as prune_store

    for name in prune_store(open_store(folder, repository, tag)):
        click.echo(f"removed {name}")


@release.command()
@click.option("--url", required=True, help="The manifest's URL.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="The mirror's folder.")
def mirror(url: str, out: Path) -> None:
    """Copy a release into a folder that any web server can serve; gm trusts the same signature there."""
    from release.publish import mirror as mirror_release

    with open_source(url) as source:
        found = mirror_release(source, out)
    click.echo(f"{found.version} (serial {found.serial}) in {out}: {', '.join(found.targets)}")


@release.command()
@click.option("--update-url", required=True, help="The manifest's URL that the scripts ask.")
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True)
def scripts(update_url: str, out: Path) -> None:
    """Write install.sh and install.ps1 with the manifest's URL in them."""
    from release.publish import install_scripts

    texts = install_scripts(update_url)
    out.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (out / name).write_bytes(text)
        click.echo(out / name)


@release.command()
@click.argument("name")
def key(name: str) -> None:
    """Print a new key pair called NAME: the private half for the secret, the public half for the builds."""
    from gm.update.signature import new_key

    private, public = new_key()
    click.echo(f"private (secret {KEY_VARIABLE}): {name}={private}")
    click.echo(f"public (variable GMNEW_PUBLIC_KEYS): {name}={public}")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def main() -> int:
    """Run the command line; errors of the house are one line on stderr and exit status 1."""
    try:
        release.main(prog_name="python -m release", standalone_mode=False)
    except GmError as error:
        click.echo(f"release: {error.as_text()}", err=True)
        return 1
    except click.ClickException as error:
        error.show()
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
