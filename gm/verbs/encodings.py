"""The encodings of text that gm reads and writes: a list, since Python's codecs are also ciphers, escapes and names."""

from __future__ import annotations

import codecs

_KNOWN = frozenset(
    {
        *("ascii", "utf-7", "utf-8", "utf-8-sig"),
        *("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"),
        *(f"iso8859-{part}" for part in range(1, 17) if part != 12),
        *(f"cp{page}" for page in (273, 424, 437, 500, 720, 737, 775, 850, 852, 855, 856, 857, 858)),
        *(f"cp{page}" for page in (860, 861, 862, 863, 864, 865, 866, 869, 874, 875, 932, 949, 950)),
        *(f"cp{page}" for page in (1006, 1026, 1125, 1140, *range(1250, 1259))),
        *("cp037", "koi8-r", "koi8-t", "koi8-u", "kz1048", "ptcp154", "tis-620", "hp-roman8"),
        *(f"mac-{name}" for name in ("arabic", "croatian", "cyrillic", "farsi", "greek", "iceland", "latin2", "roman")),
        *("mac-romanian", "mac-turkish"),
        *("big5", "big5hkscs", "euc_jp", "euc_jis_2004", "euc_jisx0213", "euc_kr", "gb18030", "gb2312", "gbk", "hz"),
        *("iso2022_jp", "iso2022_jp_1", "iso2022_jp_2", "iso2022_jp_2004", "iso2022_jp_3", "iso2022_jp_ext"),
        *("iso2022_kr", "johab", "shift_jis", "shift_jis_2004", "shift_jisx0213"),
    }
)
"""Python's own names of them."""


def text_encoding(name: str) -> str | None:
    """Return Python's own name of an encoding of text; None when `name` is none of them."""
    try:
        found = codecs.lookup(name).name
    except (LookupError, ValueError):
        return None
    return found if found in _KNOWN else None
