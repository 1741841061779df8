"""From the patterns that name shards to their paths, by the daemon's own rules (daemon/store/source.c): paths, "a::b" (two of
them), brace ranges {000..123} (padded as written), lists {a,b} in the order written, and globs, sorted bytewise."""
from __future__ import annotations

import errno
import os
import re
from typing import Iterator, Sequence, Union

__all__ = ["expand"]

_PATHS_MAX = 1000000  # numbers of a range
_BRACES_MAX = 8  # in one pattern
_NUMBER = re.compile("[0-9]{1,18}")


def _failed(error: OSError, text: str) -> OSError:
    """Of the same kind, with a text of our own."""
    made = type(error)(text)
    made.errno = error.errno
    return made


def _matches(pattern: str, path: str) -> list[str]:
    from ._dataload import glob  # glob(3): Python's own has other rules
    try:
        found = glob(os.fsencode(path))
    except OSError as error:
        raise _failed(error, f"source '{pattern}': cannot read directory {os.fsdecode(error.filename)}: {error.strerror}") from None
    if not found:
        raise FileNotFoundError(f"source '{pattern}' matches no file ({os.strerror(errno.ENOENT)})")
    return [os.fsdecode(path) for path in sorted(found)]


def _plain(pattern: str, path: str) -> list[str]:
    """A path without braces."""
    try:
        os.stat(path)
        return [path]
    except OSError as error:
        if any(character in path for character in "*?["):
            return _matches(pattern, path)
        source = "" if path == pattern else f" (of source '{pattern}')"
        raise _failed(error, f"shard {path}{source} does not exist or cannot be looked at: {error.strerror}") from None


def _numbers(pattern: str, first: str, last: str) -> Iterator[str]:
    good = _NUMBER.fullmatch(first) and _NUMBER.fullmatch(last)
    if not good or not 0 <= int(last) - int(first) < _PATHS_MAX:
        raise ValueError(f"source '{pattern}': '{{{first}..{last}}}' is no range like {{000..123}}, counting up and of at most "
                         f"{_PATHS_MAX} numbers")
    width = max(len(first), len(last)) if "0" in (first[0], last[0]) else 1
    return (f"{number:0{width}d}" for number in range(int(first), int(last) + 1))


def _expand(pattern: str, path: str, depth: int = 0) -> Iterator[str]:
    """The first pair of braces; what it gives is expanded in turn."""
    opened = path.find("{")
    if opened < 0 or (depth == 0 and os.path.exists(path)):  # a name may hold braces
        yield from _plain(pattern, path)
        return
    closed, inner = path.find("}", opened), path.find("{", opened + 1)
    if closed < 0 or 0 <= inner < closed or depth == _BRACES_MAX:
        raise ValueError(f"source '{pattern}': braces do not match, or too many of them")
    first, dots, last = path[opened + 1:closed].partition("..")
    for middle in _numbers(pattern, first, last) if dots else first.split(","):
        yield from _expand(pattern, path[:opened] + middle + path[closed + 1:], depth + 1)


def expand(patterns: Union[str, Sequence[str]]) -> list[str]:
    """The shards, in order. FileNotFoundError names what is missing or matches nothing, ValueError a pattern that makes no sense."""
    paths = []
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        for one in pattern.split("::"):
            if not one:
                raise ValueError(f"source '{pattern}' has an empty path")
            paths += _expand(one, one)
    if not paths:
        raise ValueError("the source names no shard")
    return paths
