#!/bin/sh
# Installs gm: finds this machine's target, downloads its newest build, checks it, and runs `gm install --local`.
#
#   curl -fsSL <release>/install.sh | sh
#   curl -fsSL <release>/install.sh | sh -s -- --host detected
#
# Arguments go to `gm install`. GMNEW_UPDATE_URL names another manifest (a mirror). Nothing is left behind on failure.
set -eu

URL="${GMNEW_UPDATE_URL:-@UPDATE_URL@}"

say() { printf '%s\n' "$*"; }
fail() { printf 'install.sh: %s\n' "$*" >&2; exit 1; }

main() {
    case "$URL" in
        http://*|https://*) ;;
        *) fail "this copy of the script names no release; set GMNEW_UPDATE_URL to a manifest's URL" ;;
    esac
    target="$(find_target)"
    scratch="$(mktemp -d "${TMPDIR:-/tmp}/gm-install.XXXXXX")" || fail "no temporary folder can be made"
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM

    fetch "$URL" "$scratch/manifest.json" || fail "$URL cannot be downloaded"
    entry="$(read_entry "$target" "$scratch/manifest.json")"
    grep -q '"targets"' "$scratch/manifest.json" || fail "$URL is no manifest of gm (a portal or proxy may answer for it)"
    file="$(field file "$entry")"
    sha256="$(field sha256 "$entry")"
    [ -n "$file" ] && [ -n "$sha256" ] || fail "there is no build for $target"
    case "$file" in
        */*|*..*) fail "the manifest names a file elsewhere: $file" ;;
    esac

    say "downloading $file"
    plain="${URL%%[?#]*}"
    fetch "${plain%/*}/$file" "$scratch/$file" || fail "${plain%/*}/$file cannot be downloaded"
    found="$(sha256_of "$scratch/$file")"
    [ "$found" = "$sha256" ] || fail "$file is not the archive that the manifest names (sha256 $found)"

    tar -xzf "$scratch/$file" -C "$scratch" || fail "$file cannot be extracted"
    build="$scratch/gmnew-$target"
    [ -x "$build/gm" ] || fail "$file holds no gmnew-$target/gm"
    check_glibc "$build/build.json"
    "$build/gm" install --local "$build" "$@"
}

find_target() {
    machine="$(uname -m)"
    case "$machine" in
        x86_64|amd64) architecture=x64 ;;
        aarch64|arm64) architecture=arm64 ;;
        *) fail "there are no builds for $machine, only for x86_64 and arm64" ;;
    esac
    case "$(uname -s)" in
        Linux)
            if ls /lib/ld-musl-* >/dev/null 2>&1 && ! ls /lib*/ld-linux-* /lib/*/ld-linux-* >/dev/null 2>&1; then
                fail "this system uses musl; gm's builds need glibc (Debian, Ubuntu, Fedora and others have it)"
            fi
            say "linux-$architecture" ;;
        Darwin)
            # a shell that runs translated on Apple silicon says x86_64
            if [ "$architecture" = x64 ] && [ "$(sysctl -n sysctl.proc_translated 2>/dev/null || say 0)" = 1 ]; then
                architecture=arm64
            fi
            say "macos-$architecture" ;;
        *) fail "there are no builds for $(uname -s); on Windows use install.ps1" ;;
    esac
}

# fetch URL FILE: four tries, since the manifest is missing for about a second while it is replaced
fetch() {
    tries=0
    while :; do
        if command -v curl >/dev/null 2>&1; then
            curl -fsSL --connect-timeout 15 -o "$2" "$1" && return 0
        elif command -v wget >/dev/null 2>&1; then
            wget -q -T 30 -O "$2" "$1" && return 0
        else
            fail "neither curl nor wget is on PATH"
        fi
        tries=$((tries + 1))
        [ "$tries" -lt 4 ] || return 1
        sleep "$tries"
    done
}

# read_entry TARGET FILE: the object under targets.TARGET, on one line; the entries hold no objects of their own
read_entry() {
    tr -d '\n\r' <"$2" | sed -n "s/.*\"$1\"[[:space:]]*:[[:space:]]*{\([^{}]*\)}.*/\1/p"
}

# field NAME OBJECT
field() {
    printf '%s' "$2" | sed -n "s/.*\"$1\"[[:space:]]*:[[:space:]]*\"\([^\"]*\)\".*/\1/p"
}

sha256_of() {
    if command -v sha256sum >/dev/null 2>&1; then
        sha256sum "$1" | cut -d' ' -f1
    elif command -v shasum >/dev/null 2>&1; then
        shasum -a 256 "$1" | cut -d' ' -f1
    else
        fail "neither sha256sum nor shasum is on PATH, so the download cannot be checked"
    fi
}

check_glibc() {
    need="$(field glibc "$(tr -d '\n\r' <"$1" | sed 's/"files".*//')$(tr -d '\n\r' <"$1" | sed 's/.*"files"[^}]*}//')")"
    [ -n "$need" ] || return 0
    have="$(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)"
    [ -n "$have" ] || return 0
    [ "$(printf '%s\n%s\n' "${need#*.}" "${have#*.}" | sort -n | head -n 1)" = "${need#*.}" ] ||
        fail "this build needs glibc $need, this system has $have: a newer release of the system is needed"
}

main "$@"
