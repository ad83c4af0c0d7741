"""The base class of the configuration's sections, and the kinds of values in them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter

Probability = Annotated[float, Field(ge=0.0, lt=1.0)]
PositiveFloat = Annotated[float, Field(gt=0.0)]
# Bounds beyond any use: a configuration may come with a stranger's model, and what it says is built.
PositiveInt = Annotated[int, Field(gt=0, le=10**15)]
Units = Annotated[int, Field(gt=0, le=65_536)]
Layers = Annotated[int, Field(gt=0, le=64)]
Count = Annotated[int, Field(gt=0, le=1_000_000)]
PATTERN_MESSAGE_KEY = "patternErrorMessage"
"""Key in the JSON Schema with the error message of a `pattern`. Some editors show this message too."""


def pattern_field(pattern: str, message: str) -> Any:
    """Return a pydantic field for text that matches a pattern; `message` tells the user, such as `must be one word`."""
    return Field(pattern=pattern, json_schema_extra={PATTERN_MESSAGE_KEY: message})


Name = Annotated[
    str,
    Field(min_length=1),
    pattern_field(
        r"^(?:\.{0,2}[^./\\\x00-\x1f]|\.{3})[^/\\\x00-\x1f]*$",
        "must be a name without slashes, backslashes and control characters, and neither . nor ..",
    ),
]


class PathKind(Enum):
    """The kind of file that a path names: metadata in the type of every key that takes a path (`config/paths.py`)."""

    DATA = "data"
    """A file that the user gives. No command that reads the configuration overwrites it."""
    DIRECTORY = "directory"
    """The directory of a run."""


_PathText = Annotated[
    str,
    Field(min_length=1),
    pattern_field(r"^[^\x00\n]+$", "must be a path without line breaks"),
    AfterValidator(os.path.expanduser),  # a shell leaves ~ as it is behind --set KEY=
]
DataPath = Annotated[_PathText, PathKind.DATA]
DirectoryPath = Annotated[_PathText, PathKind.DIRECTORY]
_name = TypeAdapter(Name)


def is_name(text: str) -> bool:
    """Return True if the text is a valid name of a run: it fits the type `Name` and can be written in UTF-8."""
    try:
        _name.validate_python(text)
        text.encode("utf-8")
    except ValueError:
        return False
    return True


def raise_problems(problems: Sequence[str]) -> None:
    """Raise one `ValueError` with a line `key: what is wrong` for each problem; do nothing if there are none."""
    if problems:
        raise ValueError("\n".join(problems))


class Section(BaseModel):
    """A part of the configuration: frozen, strict about types, closed to unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )
