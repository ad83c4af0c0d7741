"""Finds the paths in a configuration by the types of its keys, so that no key can be forgotten."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pydantic.fields import FieldInfo

from nmt_cli.config.section import PathKind, Section


class NamedPath(NamedTuple):
    """A path that a configuration has as a value, with its key."""

    location: tuple[str | int, ...]
    """The keys and list indices (from 0) that lead to the path."""
    path: str
    kind: PathKind

    @property
    def key(self) -> str:
        """The dotted key, such as `data.train.0.source`."""
        return ".".join(map(str, self.location))


def paths_in(section: Section) -> Iterator[NamedPath]:
    """Yield every path that is a value in a configuration or in one section, with its key."""
    for name, field in type(section).model_fields.items():
        yield from _paths_of(getattr(section, name), (name,), kind_of(field))


def _paths_of(value: Any, location: tuple[str | int, ...], kind: PathKind | None) -> Iterator[NamedPath]:
    if isinstance(value, Section):
        for named in paths_in(value):
            yield named._replace(location=(*location, *named.location))
    elif isinstance(value, tuple):
        for number, one in enumerate(value):
            yield from _paths_of(one, (*location, number), kind)
    elif isinstance(value, str) and kind is not None:
        yield NamedPath(location, value, kind)


def kind_of(field: FieldInfo) -> PathKind | None:
    """Return the kind of path, file or directory, that a key takes; None if it does not take a path."""
    marks = [*field.metadata, *_metadata_within(field.annotation)]
    return next((mark for mark in marks if isinstance(mark, PathKind)), None)


def _metadata_within(annotation: Any) -> Iterator[Any]:
    """Yield the `Annotated` metadata of a type and its parts, as in `DataPath | None` and `tuple[DataPath, ...]`."""
    yield from getattr(annotation, "__metadata__", ())
    for part in typing.get_args(annotation):
        yield from _metadata_within(part)


def make_paths_absolute(values: dict[str, Any], section: Section) -> dict[str, Any]:
    """Make the paths in `values` absolute in place, and return it; it comes from `section.model_dump(mode="json")`."""
    for (*parents, last), path, _ in paths_in(section):
        place: Any = values
        for name in parents:
            place = place[name]
        place[last] = str(Path(path).absolute())
    return values
