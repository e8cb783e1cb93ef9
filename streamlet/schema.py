"""The shape of stored types as plain data, so that a manifest can tell a harmless change from one that loses data.

A change is harmless if everything written under the old shape can be read under the new one: a field added with a
default, a field removed, a choice added. A class may be renamed: its name is not stored.
"""

from collections.abc import Iterator, Mapping
from typing import cast

import msgspec
from msgspec import inspect

from streamlet.hints import shown

# Scalars are their name; everything else is one JSON object whose only key tells the form.
Schema = str | dict[str, object]


def schema_of(hint: object) -> Schema:
    """The shape of a type. Types that msgspec does not know are named: a codec of the user's own writes them."""
    try:
        return _form(inspect.type_info(hint), ())
    except (TypeError, msgspec.ValidationError):
        return shown(hint)


def differences(old: Schema, new: Schema, path: str = "") -> Iterator[str]:
    """What was written as `old` and cannot be read as `new`, one sentence each, with the way to the place."""
    if old == new:
        return
    choices = _part(new, "union")
    if choices is not None:
        yield from _widened(old, cast("list[Schema]", choices), path)
        return
    (form, before), (_, after) = _split(old), _split(new)
    if form != _split(new)[0] or form == "":
        yield f"{path or 'the value'} was {told(old)} and is {told(new)}"
    elif form == "object":
        yield from _object_differences(cast("dict[str, object]", before), cast("dict[str, object]", after), path)
    elif form in ("enum", "literal"):
        gone = [value for value in cast("list[object]", before) if value not in cast("list[object]", after)]
        if gone:
            yield f"{path or 'the value'} could be {', '.join(map(str, gone))}, and cannot any more"
    else:
        yield from _items_differ(cast("list[Schema]", before), cast("list[Schema]", after), form, path)


def told(schema: Schema) -> str:
    """A shape in few words."""
    form, content = _split(schema)
    if form == "":
        return str(content)
    if form == "object":
        return str(cast("dict[str, object]", content)["name"])
    if form in ("enum", "literal"):
        return f"{form} of {', '.join(map(str, cast('list[object]', content)))}"
    inner = ", ".join(told(part) for part in cast("list[Schema]", content))
    return inner.replace(", ", " | ") if form == "union" else f"{form}[{inner}]"


def _widened(old: Schema, choices: list[Schema], path: str) -> Iterator[str]:
    before = _part(old, "union")
    for one in cast("list[Schema]", before) if before is not None else [old]:
        if all(any(True for _ in differences(one, choice)) for choice in choices):
            yield f"{path or 'the value'} could be {told(one)}, and can only be {told({'union': choices})} now"


def _object_differences(old: Mapping[str, object], new: Mapping[str, object], path: str) -> Iterator[str]:
    before, after = cast("dict[str, dict[str, Schema]]", old["fields"]), cast("dict[str, dict[str, Schema]]", new["fields"])
    place = path or told({"object": dict(old)})
    if (old["tag"], old["array"]) != (new["tag"], new["array"]):
        yield f"{place} is written in another form (array_like or tag)"
        return
    if old["array"] and list(after)[: len(before)] != list(before):
        yield f"{place} is array_like, where fields may only be appended: it had {', '.join(before)} and has {', '.join(after)}"
        return
    for name, field in after.items():
        if name in before:
            yield from differences(before[name]["type"], field["type"], f"{place}.{name}")
        elif field["required"]:
            yield f"{place}.{name} is new and has no default, so older values cannot be read"


def _items_differ(old: list[Schema], new: list[Schema], form: str, path: str) -> Iterator[str]:
    if len(old) != len(new):
        yield f"{path or 'the value'} was {told({form: old})} and is {told({form: new})}"
        return
    for number, (one, other) in enumerate(zip(old, new, strict=True)):
        yield from differences(one, other, f"{path}[{number}]" if len(old) > 1 else f"{path}[]")


def _split(schema: Schema) -> tuple[str, object]:
    return ("", schema) if isinstance(schema, str) else next(iter(schema.items()))


def _part(schema: Schema, form: str) -> object | None:
    found, content = _split(schema)
    return content if found == form else None


def _form(info: inspect.Type, outer: tuple[type, ...]) -> Schema:
    match info:
        case inspect.Metadata():
            return _form(info.type, outer)
        case inspect.StructType() | inspect.DataclassType() | inspect.TypedDictType() | inspect.NamedTupleType():
            return _object(info, outer)
        case inspect.UnionType():
            return {"union": sorted((_form(part, outer) for part in info.types), key=str)}
        case inspect.ListType() | inspect.SetType() | inspect.FrozenSetType() | inspect.VarTupleType() | inspect.CollectionType():
            return {"list": [_form(info.item_type, outer)]}  # all of these are written alike
        case inspect.TupleType():
            return {"tuple": [_form(part, outer) for part in info.item_types]}
        case inspect.DictType():
            return {"dict": [_form(info.key_type, outer), _form(info.value_type, outer)]}
        case inspect.EnumType():
            return {"enum": sorted((cast("object", member.value) for member in info.cls), key=str)}
        case inspect.LiteralType():
            return {"literal": sorted(info.values, key=str)}
        case inspect.CustomType():
            return shown(cast("object", info.cls))
        case _:
            return type(info).__name__.removesuffix("Type").lower()


def _object(
    info: inspect.StructType | inspect.DataclassType | inspect.TypedDictType | inspect.NamedTupleType, outer: tuple[type, ...]
) -> Schema:
    if info.cls in outer:
        return f"the same {info.cls.__name__}"  # a type that holds itself ends here
    tag, array_like = (info.tag, info.array_like) if isinstance(info, inspect.StructType) else (None, False)
    fields = {field.encode_name: {"type": _form(field.type, (*outer, info.cls)), "required": field.required} for field in info.fields}
    return {
        "object": {
            "name": info.cls.__name__,
            "fields": fields,
            "tag": tag,
            "array": array_like or isinstance(info, inspect.NamedTupleType),
        }
    }
