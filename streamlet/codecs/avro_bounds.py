"""Keeps hostile bytes away from fastavro where its C code would not survive them.

Two kinds of schema let a few bytes cost everything: arrays whose items take no bytes (a length of 2^62 is then "valid":
measured 47 s to a MemoryError) and recursive records (100,000 bytes of nesting overflow the C stack: the process dies).
Only for these the bytes are walked first. All other schemas are safe by themselves: every item takes a byte that must be there.

Invariant: after `walk` returns, reading the same bytes allocates at most in proportion to their length, nested at most MAX_DEPTH deep.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

from streamlet.codecs.hints import is_list, is_mapping

MAX_DEPTH: Final = 1_000
MAX_EMPTY_ITEMS: Final = 65_536

Named = Mapping[str, object]
_FIXED_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


class UnboundedData(ValueError):
    """The bytes claim more nesting or more empty items than any sane writer makes."""


def bounds_check(schema: object, named: Named) -> Callable[[bytes, int], None] | None:
    """A function that raises on dangerous bytes from a position on, or None where no bytes are dangerous."""
    if not _is_dangerous(schema, named, ()):
        return None
    return lambda data, start: walk(schema, named, data, start)


def walk(schema: object, named: Named, data: bytes, start: int) -> None:
    """Step over one value, without building it and without recursion."""
    reader = _Steps(data, start, MAX_EMPTY_ITEMS)
    todo: list[tuple[object, int]] = [(schema, 0)]
    while todo:
        node, depth = todo.pop()
        if depth > MAX_DEPTH:
            raise UnboundedData(f"it is nested more than {MAX_DEPTH} deep")
        if isinstance(node, _Rest):
            if (rest := reader.next_item(node)) is not None:
                todo.append((rest, depth))
                todo.append((node.items, depth))
            continue
        node = _resolved(node, named)
        kind = _kind(node)
        if kind == "union":
            branches = _listed(node)
            index = reader.number()
            if not 0 <= index < len(branches):
                raise UnboundedData(f"branch {index} of a union of {len(branches)}")
            todo.append((branches[index], depth + 1))
        elif kind in ("record", "error"):
            todo.extend((item, depth + 1) for item in reversed(_field_types(node)))
        elif kind in ("array", "map"):
            items = _entry(node, "items" if kind == "array" else "values")
            is_empty = kind == "array" and _takes_no_bytes(items, named, ())
            todo.append((_Rest(items, 0, is_map=kind == "map", is_empty=is_empty), depth + 1))
        else:
            reader.skip(kind, node)


@dataclass(frozen=True, slots=True)
class _Rest:
    """What is still to come of an array or map: items left in this block, then further blocks."""

    items: object
    left: int
    is_map: bool
    is_empty: bool


@dataclass(slots=True)
class _Steps:
    data: bytes
    at: int
    empty_items: int

    def number(self) -> int:
        shift = raw = 0
        while True:
            if self.at >= len(self.data) or shift > 63:
                raise UnboundedData("a number has no end")
            byte = self.data[self.at]
            self.at += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (raw >> 1) ^ -(raw & 1)
            shift += 7

    def take(self, size: int) -> None:
        if size < 0 or size > len(self.data) - self.at:
            raise UnboundedData(f"{size} bytes are claimed where {len(self.data) - self.at} are left")
        self.at += size

    def skip(self, kind: str, node: object) -> None:
        if kind in _FIXED_SIZES:
            self.take(_FIXED_SIZES[kind])
        elif kind in ("int", "long", "enum"):
            self.number()
        elif kind in ("bytes", "string"):
            self.take(self.number())
        elif kind == "fixed":
            self.take(cast("int", _entry(node, "size")))  # fastavro has parsed the schema
        else:
            raise UnboundedData(f"there is no Avro type {kind}")

    def next_item(self, rest: _Rest) -> _Rest | None:
        left = rest.left
        if left == 0:
            left = self.number()
            if left < 0:
                self.number()  # the size of the block in bytes, which nobody needs here
                left = -left
            if left == 0:
                return None
            if rest.is_empty:
                self.empty_items -= left
                if self.empty_items < 0:
                    raise UnboundedData(f"an array claims more than {MAX_EMPTY_ITEMS} items without content")
        if rest.is_map:
            self.take(self.number())
        # Items without bytes are all alike: having walked one, the others need no walk.
        return _Rest(rest.items, 0 if rest.is_empty else left - 1, rest.is_map, rest.is_empty)


def _is_dangerous(node: object, named: Named, above: tuple[str, ...]) -> bool:
    node = _resolved(node, named)
    kind = _kind(node)
    if kind == "union":
        return any(_is_dangerous(branch, named, above) for branch in _listed(node))
    if kind in ("record", "error"):
        name = str(_entry(node, "name"))
        return name in above or any(_is_dangerous(item, named, (*above, name)) for item in _field_types(node))
    if kind == "array":
        items = _entry(node, "items")
        return _takes_no_bytes(items, named, ()) or _is_dangerous(items, named, above)
    return kind == "map" and _is_dangerous(_entry(node, "values"), named, above)


def _takes_no_bytes(node: object, named: Named, above: tuple[str, ...]) -> bool:
    node = _resolved(node, named)
    kind = _kind(node)
    if kind in ("record", "error"):
        name = str(_entry(node, "name"))
        return name in above or all(_takes_no_bytes(item, named, (*above, name)) for item in _field_types(node))
    return kind == "null" or (kind == "fixed" and _entry(node, "size") == 0)


def _resolved(node: object, named: Named) -> object:
    """The node itself, behind names and behind types that only wrap another."""
    while True:
        inner = named.get(node) if isinstance(node, str) else _wrapped(node)
        if inner is None:
            return node
        node = inner


def _wrapped(node: object) -> object | None:
    inner = _entry(node, "type") if is_mapping(node) else None
    return None if isinstance(inner, str) else inner


def _kind(node: object) -> str:
    if is_list(node):
        return "union"
    return str(_entry(node, "type") if is_mapping(node) else node)


def _field_types(node: object) -> list[object]:
    return [_entry(one, "type") for one in cast("list[object]", _entry(node, "fields"))]  # fastavro has parsed the schema


def _listed(node: object) -> list[object]:
    return cast("list[object]", node)  # only unions come here


def _entry(node: object, name: str) -> object:
    return cast("Mapping[str, object]", node)[name]  # only complex types come here, and fastavro has parsed them
