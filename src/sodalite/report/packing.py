"""Long texts in a page, at a third of their length: compressed, in characters that HTML leaves alone.

page.js unpacks them (unpack.js); no browser needs more than JavaScript for it, and no text is fetched.
"""

from __future__ import annotations

import zlib
from base64 import b85decode, b85encode
from functools import lru_cache

LEVEL = 9  # the best compression of zlib: half a second for plotly.js, once
PLAIN, SAFE = b"<", b","  # base 85 uses "<", with which a text could end the element that it is in


def pack(text: str) -> str:
    """A text as base 85 of its compressed bytes (RFC 1951).

    Examples
    --------
    >>> unpack(pack("the same, the same, the same"))
    'the same, the same, the same'
    """
    packer = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    data = packer.compress(text.encode()) + packer.flush()
    return b85encode(data, pad=True).replace(PLAIN, SAFE).decode()


def unpack(text: str) -> str:
    """The text that was packed."""
    return zlib.decompress(b85decode(text.encode().replace(SAFE, PLAIN)), -zlib.MAX_WBITS).decode()


@lru_cache(1)
def pack_once(text: str) -> str:
    """A text packed; the last one is kept, since every page has the same plotly.js."""
    return pack(text)


def element(name: str, text: str, packed: str | None = None) -> str:
    """An HTML element that holds a text, which page.js unpacks by its name."""
    packed = pack(text) if packed is None else packed
    return f'<script type="text/plain" id="{name}" data-size="{len(text.encode())}">{packed}</script>'
