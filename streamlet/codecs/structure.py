"""The shape of a structured type: refused at declaration if it cannot be read back, and fingerprinted for the manifest.

Invariant: equal shapes give equal fingerprints, whatever the module, the doc strings or the release of msgspec.
"""

import enum
import hashlib
from collections.abc import Iterator

import msgspec
from msgspec import inspect

from streamlet.codecs.errors import UnsupportedType
from streamlet.codecs.hints import is_tuple, name_of


def shape_of(hint: object) -> inspect.Type:
    """What msgspec makes of the hint; refuses what it could write but never read."""
    declared = name_of(hint)
    try:
        shape = inspect.type_info(hint)
    except (TypeError, ValueError, NameError, RecursionError) as error:
        fix = "Use str, bytes, int, float, bool, UUID, a Struct, dataclass, TypedDict, or containers and unions of them"
        raise UnsupportedType(declared, str(error).rstrip("."), fix) from error
    for part in parts_of(shape):
        if isinstance(part, inspect.CustomType) and part.cls is not object:
            raise UnsupportedType(
                declared,
                f"{name_of(part.cls)} has no fields that can be read from its type hints",
                f"Make {name_of(part.cls)} a Struct or a dataclass, or give codec= an object with encode and decode",
            )
    return shape


def parts_of(shape: inspect.Type) -> Iterator[inspect.Type]:
    """Every type inside, each class once."""
    seen: set[int] = set()
    stack: list[object] = [shape]
    while stack:
        part = stack.pop()
        if is_tuple(part):
            stack.extend(part)
        elif isinstance(part, inspect.Type | inspect.Field) and id(part) not in seen:
            seen.add(id(part))
            if isinstance(part, inspect.Type):
                yield part
            stack.extend(getattr(part, name) for name in part.__struct_fields__)


def fingerprint_of(shape: inspect.Type) -> str:
    """Twelve hex digits that change with any field, type, default or constraint."""
    return hashlib.sha256(_canonical(shape, ()).encode()).hexdigest()[:12]


def _canonical(part: object, above: tuple[object, ...]) -> str:
    if any(part is one for one in above):  # a recursive class: named, not walked again
        return f"^{name_of(getattr(part, 'cls', None))}"
    if isinstance(part, inspect.Type | inspect.Field):
        below = (*above, part)
        pairs = ((name, getattr(part, name)) for name in sorted(part.__struct_fields__))
        inner = ",".join(f"{name}={_canonical(value, below)}" for name, value in pairs if value is not None and not _is_unset(value))
        return f"{type(part).__name__}({inner})"
    if is_tuple(part):
        return f"[{','.join(_canonical(item, above) for item in part)}]"
    if isinstance(part, enum.Enum):
        return f"{type(part).__name__}.{part.name}"
    if isinstance(part, type):
        members = [f"{m.name}:{m.value!r}" for m in part] if issubclass(part, enum.Enum) else []
        return f"{part.__name__}{members or ''}"
    if callable(part):
        return getattr(part, "__name__", type(part).__name__)
    return repr(part) if isinstance(part, str | int | float | bool | bytes) else type(part).__name__


def _is_unset(value: object) -> bool:
    return value is msgspec.NODEFAULT or value is msgspec.UNSET
