"""YAML 1.2 as text of configurations: `no` and `12:30` are strings, `1e-3` is a number (PyYAML alone follows 1.1)."""

from __future__ import annotations

import copy
import json
import re
from contextlib import suppress
from typing import Any

import yaml

from nmt_cli.system.errors import ConfigError

_FIRST_CHARACTERS = list("-+0123456789.")

MAX_ALIASED_CHARACTERS = 100_000
"""Most characters of values that YAML with aliases may stand for, so that a few lines do not stand for gigabytes."""

# The implicit types of YAML 1.2's core schema (section 10.3.2 of the specification), and the merge key `<<`, which
# belongs to aliases.
_CORE_SCHEMA = (
    ("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""]),
    ("tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")),
    ("tag:yaml.org,2002:int", re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$"), _FIRST_CHARACTERS),
    (
        "tag:yaml.org,2002:float",
        re.compile(
            r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
            r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
        ),
        _FIRST_CHARACTERS,
    ),
    ("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"]),
)


_PLAIN_MESSAGES = (
    (r"expected <block end>, but found '<scalar>'", "there is text behind the value; put all of it in quotes"),
    ("expected <block end>", "the indentation differs from the lines above; keys of a section begin in one column"),
    ("mapping values are not", "two keys on one line, or wrong indentation; put text with ': ' in quotes"),
    ("sequence entries are not", "begin each item of a list on a line of its own, or put the list in brackets: [a, b]"),
    (r"character '\\t' that cannot start", "a tab; indent with spaces"),
    ("character '(.)' that cannot start", r"put text that begins with \1 in quotes"),
    ("expected chomping", "put text that begins with | or > in quotes"),
    ("expected ',' or '(.)'", r"a comma is missing before this, or \1 to close the list or section"),
    ("unexpected end of stream", "a quotation mark that was opened in line {line} is not closed"),
    ("could not find expected ':'", "line {line} has no colon followed by a space, as in `key: value`"),
    ("unknown escape character", r"in double quotes \ has a meaning; take single quotes"),
    ("another document", "--- begins a second YAML document here; remove it"),
    ("expected the node content, but found (.*)", r"a value is missing before \1"),
    ("(?s)unacceptable character (#x[0-9a-f]+).*", r"the character \1 is not allowed in YAML"),
)
"""Regular expressions that match PyYAML's error messages, each with a message in plain words."""


class _Loader(yaml.SafeLoader):
    """Loads YAML 1.2 safely, without duplicate keys and tags. Each alias becomes a copy of the value that it names."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 (as PyYAML declares it)

    def __init__(self, stream: Any) -> None:
        super().__init__(stream)
        self._size = 0
        self._sizes: dict[str, int] = {}  # of the values with an anchor that have been read to their end

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent):
            return self._copy_of_alias(super().compose_node(parent, index), event)
        if getattr(event, "tag", None) is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            problem = f"tags such as {tag} are not supported; remove it (put text in quotes)"
            raise yaml.constructor.ConstructorError(None, None, problem, event.start_mark)
        self._sizes.pop(event.anchor, None)
        before = self._size
        node = super().compose_node(parent, index)
        self._size += 1 + (len(node.value) if isinstance(node, yaml.ScalarNode) else 0)
        self._sizes[event.anchor] = self._size - before
        return node

    def _copy_of_alias(self, node: Any, event: Any) -> Any:
        """Return a copy of the node that an alias names, if all copies are finite and small."""
        problem = None
        if event.anchor not in self._sizes:
            problem = f"the alias *{event.anchor} is a part of the value that it stands for; write the value out"
        elif self._size + self._sizes[event.anchor] > MAX_ALIASED_CHARACTERS:
            problem = "the aliases up to here stand for too much text; write the values out"
        if problem is not None:
            raise yaml.constructor.ConstructorError(None, None, problem, event.start_mark)
        self._size += self._sizes[event.anchor]
        return copy.deepcopy(node)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, (dict, list)):
                raise yaml.constructor.ConstructorError(None, None, "a key must be a word", key_node.start_mark)
            if (type(key), key) in seen:  # to Python the keys 1 and true are the same
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {json.dumps(key, ensure_ascii=False)} is given twice", key_node.start_mark
                )
            seen.add((type(key), key))
        return super().construct_mapping(node, deep=deep)

    def construct_core_int(self, node: Any) -> int:
        text = self.construct_scalar(node)
        return int(text, 0) if text.startswith(("0o", "0x")) else int(text, 10)

    def construct_core_merge(self, node: Any) -> str:
        """Return `<<` itself: where it is a value, it is text."""
        return str(node.value)


class _Dumper(yaml.SafeDumper):
    """Writes YAML, with quotes around text that `_Loader` would read as a number, a boolean or null."""

    yaml_implicit_resolvers = {  # noqa: RUF012 (as PyYAML declares it)
        key: list(value) for key, value in yaml.SafeDumper.yaml_implicit_resolvers.items()
    }

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True

    def represent_text(self, data: str) -> yaml.ScalarNode:
        # YAML takes these for line breaks, which only between double quotes come back as they were.
        breaks = re.search("[\x85\u2028\u2029]", data)
        return self.represent_scalar("tag:yaml.org,2002:str", data, style='"' if breaks else None)


for _tag, _pattern, _first in _CORE_SCHEMA:
    _Loader.add_implicit_resolver(_tag, _pattern, _first)
    _Dumper.add_implicit_resolver(_tag, _pattern, _first)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_core_int)
_Loader.add_constructor("tag:yaml.org,2002:merge", _Loader.construct_core_merge)
_Dumper.add_representer(str, _Dumper.represent_text)


def parse_yaml(text: str, origin: str) -> Any:
    """Return the value of YAML 1.2 text; a `ConfigError` names `origin`, line and column."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{origin}:{mark.line + 1}:{mark.column + 1}" if mark else origin
        too_deep = isinstance(error, RecursionError)
        problem = "too deeply nested" if too_deep else getattr(error, "problem", None) or str(error)
        began = getattr(error, "context_mark", None) or mark
        raise ConfigError(
            f"{place}: not valid YAML: {_plain_message(problem, began.line + 1 if began else 1)}"
        ) from error


def _plain_message(problem: str, line: int) -> str:
    """Return a message of PyYAML in plain words; `line`, counted from 1, is where the wrong part begins."""
    for pattern, words in _PLAIN_MESSAGES:
        if found := re.search(pattern, problem):
            return found.expand(words).replace("{line}", str(line))
    return problem


def value_end(text: str) -> int:
    """Return the length of `text` up to the end of its YAML value, before any comment; 0 if it has no value."""
    node = yaml.compose(text, Loader=_Loader)
    return 0 if node is None else int(node.end_mark.index)


def dump_yaml(values: Any) -> str:
    """Return values as YAML that readers of YAML 1.1 and of 1.2 read back as they were."""
    return yaml.dump(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=120)


def quote_scalar(text: str) -> str:
    """Return a YAML string, quoted where a reader of YAML 1.1 or 1.2 might take it for something else."""
    is_plain = re.fullmatch(r"(?:\./|\.\./|/)?[A-Za-z_][A-Za-z0-9_./+-]*", text)
    if is_plain and text.lower() not in ("null", "true", "false", "yes", "no", "on", "off", "y", "n"):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return re.sub(r"[\x7f-\x9f\u2028\u2029\ufeff]", lambda found: f"\\u{ord(found[0]):04x}", quoted)


def format_override(key: str, text: object) -> str:
    """Return `KEY=VALUE` for `--set` so that the key gets this text, in quotes where YAML would read something else."""
    value = str(text)
    with suppress(ConfigError):
        if parse_yaml(value, key) == value:
            return f"{key}={value}"
    return f"{key}={quote_scalar(value)}"
