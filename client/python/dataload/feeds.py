"""Feeds given in Python: the settings of dataloadd.conf(5) under the same names, written as the daemon reads them."""
from __future__ import annotations

import difflib
import hashlib
import json
import os
from typing import Any, Iterable, Union

from .patterns import expand

__all__ = ["Feed", "configuration", "gift"]

# Of a feed; daemon/config_feed.c has the table that counts.
KEYS = ("name", "source", "folder", "fields", "transform", "shuffle", "tail", "mean", "std", "lag", "lag_bound", "output", "batch", "lanes",
        "seed", "slots", "exif", "decoder", "pixels", "bad_samples", "bad_limit", "share", "handoff", "pin", "allow", "exclude", "weight")
_OWN = ("shards", "image", "label")
_IMAGE, _LABEL, _NAMELESS = ("jpg", "jpeg"), "cls", "feed"


def _absolute(path: Union[str, os.PathLike]) -> str:
    """Patterns too: the daemon's working directory is nobody's business."""
    return os.path.abspath(os.path.expanduser(os.fspath(path)))


def _absolute_source(pattern: Union[str, os.PathLike]) -> str:
    """Of tar files "a::b" is two paths."""
    return "::".join(path and _absolute(path) for path in os.fspath(pattern).split("::"))


def _paths(value, absolute) -> Union[str, list]:
    if isinstance(value, bytes):
        value = os.fsdecode(value)
    return absolute(value) if isinstance(value, (str, os.PathLike)) else [absolute(path) for path in value]


def _field(name: str, kind: str, given) -> dict:
    """given: a suffix, several, or the settings of the field."""
    settings = dict(given) if isinstance(given, dict) else {"from": given}
    return {"name": name, "kind": kind, **settings}


def _unknown(name: str) -> TypeError:
    known = sorted({*KEYS, *_OWN})
    near = difflib.get_close_matches(name, known, 1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
    return TypeError(f"Feed() has no setting {name}: {hint}")


def _plain(name: str, value: Any) -> Any:
    """As JSON has it, or TypeError: also numpy's numbers, tuples and paths."""
    if isinstance(value, dict):
        return {str(key): _plain(name, item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(name, item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "tolist"):
        return _plain(name, value.tolist())
    if isinstance(value, str):
        value.encode()  # what is no UTF-8 is no YAML
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        return value
    raise TypeError(f"Feed({name}={value!r}): numbers, texts, lists and dicts of them are wanted")


class Feed:
    """A feed of one's own: given to the daemon of the node, or, with spawn=True, served by a daemon of one's own.

    shards: tar files (path, glob, brace range, list), which the configuration calls source; or folder: an image folder.
    image, label: the part of a record that each is read from: a suffix, several, or a dict with the settings of the field; None
    leaves the field out. Other fields are given whole: fields=[{"name": ..., "from": ..., "kind": ...}, ...].
    All others are settings of a feed in dataloadd.conf(5), by the same names; what is left out has the daemon's default.
    """

    def __init__(self, *, shards=None, folder=None, name: str = _NAMELESS, image=_IMAGE, label=_LABEL, **settings):
        for key in settings:
            if key not in KEYS:
                raise _unknown(key)
        if [shards, settings.get("source"), folder].count(None) != 2:
            raise TypeError("Feed(): give shards (tar files) or folder (an image folder), one of them")
        settings.update(name=name, source=settings.get("source") or shards, folder=folder)
        for key in ("source", "folder", "exclude"):
            if settings.get(key) is not None:
                settings[key] = _paths(settings[key], _absolute_source if key == "source" else _absolute)
        if (image, label) != (_IMAGE, _LABEL):
            if "fields" in settings:
                raise TypeError("Feed(fields=...) gives all fields: leave image and label out, or give them only")
            fields = (("image", "image", image), ("label", "int", label))
            settings["fields"] = [_field(key, kind, given) for key, kind, given in fields if given is not None]
        self.settings = {key: _plain(key, value) for key, value in settings.items() if value is not None}

    @property
    def name(self) -> str:
        return self.settings["name"]

    def __eq__(self, other) -> bool:
        return isinstance(other, Feed) and self.settings == other.settings

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Feed({', '.join(f'{key}={value!r}' for key, value in sorted(self.settings.items()))})"


def configuration(feeds: Iterable[Feed]) -> str:
    """The text of a configuration with these feeds, the same for the same settings. JSON is YAML."""
    feeds = list(feeds)
    for feed in feeds:
        if not isinstance(feed, Feed):
            raise TypeError(f"config: {feed!r} among the feeds is no dataload.Feed")
    names = [feed.name for feed in feeds]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise ValueError(f'two feeds are named "{twice}": give each another name=')
    return json.dumps({"feeds": [feed.settings for feed in feeds]}, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


_NOT_GIVEN = {
    "folder": "it does not open files for its users: make shards of the folder (dataload-pack folder DIR SHARDS) and give shards=",
    "exclude": "it does not open files for its users: make shards without these records",
    "allow": "a feed of one's own is for its user alone: leave it out",
}


def gift(feed: Feed) -> tuple[str, list[str]]:
    """What the daemon of the node is given of it: the recipe, and the shards, which the library opens."""
    for key, why in _NOT_GIVEN.items():
        if key in feed.settings:
            raise TypeError(f"Feed({key}=...) cannot be given to the daemon of the node: {why}; or have a daemon of your own (spawn=True)")
    settings, shards = {key: value for key, value in feed.settings.items() if key != "source"}, expand(feed.settings["source"])
    if feed.name == _NAMELESS:  # so that a user's feeds for training and for validation are two
        said = json.dumps([settings, shards], sort_keys=True)
        settings["name"] = f"{_NAMELESS}-{hashlib.sha256(said.encode()).hexdigest()[:8]}"
    return json.dumps(settings, sort_keys=True, ensure_ascii=False), shards
