"""YAML as the catalog allows it: plain scalars, no repeated keys, and a line number for every complaint.

PyYAML's own loader keeps the last of two equal keys and turns dates and `yes` into other things; here both
are errors or text.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from willitserve.errors import CatalogError

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BOOLEANS = {"true": True, "false": False}
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_DECIMAL = re.compile(r"-?[0-9]+\.[0-9]+(?:[eE][-+][0-9]+)?")
# YAML 1.1 takes these for text: `1e-05` has no point.
_NEARLY_A_NUMBER = re.compile(r"[-+]?[0-9]+[eE][-+]?[0-9]+")


@dataclass(frozen=True)
class YamlDocument:
    """The values of one file, and where they stand in it."""

    path: str
    """As the caller names the file."""
    values: dict[str, object]
    root: yaml.MappingNode

    def line_of(self, place: Sequence[int | str]) -> int:
        """The line, counted from 1, of the deepest node on the way to `place` (keys and list positions from
        the root)."""
        node: yaml.Node = self.root
        line = 1
        for step in place:
            below = _child(node, step)
            if below is None:
                break
            node = below
            line = node.start_mark.line + 1
        return line


def read_yaml(path: str, text: str) -> YamlDocument:
    """The mapping that the file holds.

    Raises
        CatalogError: no YAML, no mapping, a repeated key, a key or scalar of a kind that the catalog does not
        use.
    """
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark is not None else path
        raise CatalogError(f"{place}: no YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(root, yaml.MappingNode):
        raise CatalogError(f"{path}:1: a catalog file is a mapping of keys to values")
    return YamlDocument(path, _mapping(path, root), root)


def _child(node: yaml.Node, step: int | str) -> yaml.Node | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step]
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return value
    return None


def _mapping(path: str, node: yaml.MappingNode) -> dict[str, object]:
    values: dict[str, object] = {}
    for key_node, value_node in node.value:
        key = key_node.value
        if not isinstance(key, str):
            raise CatalogError(f"{path}:{key_node.start_mark.line + 1}: a key must be plain text")
        if key in values:
            line = key_node.start_mark.line + 1
            raise CatalogError(f"{path}:{line}: key {key!r} stands twice in one mapping")
        values[key] = _value(path, value_node)
    return values


def _value(path: str, node: yaml.Node) -> object:
    if isinstance(node, yaml.MappingNode):
        return _mapping(path, node)
    if isinstance(node, yaml.SequenceNode):
        return [_value(path, item) for item in node.value]
    text: str = node.value
    quoted = bool(getattr(node, "style", None))
    match node.tag.rpartition(":")[2]:
        case "str" if quoted or not _NEARLY_A_NUMBER.fullmatch(text):
            return text
        case "null":
            return None
        case "bool" if text in _BOOLEANS:
            return _BOOLEANS[text]
        case "int" if _INTEGER.fullmatch(text):
            return int(text)
        case "float" if _DECIMAL.fullmatch(text):
            return float(text)
        case _:
            line = node.start_mark.line + 1
            raise CatalogError(
                f"{path}:{line}: {text!r} is neither clearly text nor clearly a value",
                hint="Put it in quotes, or write it out: 1.0e-05.",
            )
