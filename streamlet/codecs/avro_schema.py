"""An Avro schema from type hints, so that an app declares its types once.

| Python | Avro |
|---|---|
| str, bytes, bool, int, float, None | string, bytes, boolean, long, double, null |
| datetime, date, time | timestamp-micros, date, time-micros |
| UUID | string with logical type uuid |
| Decimal, timedelta | string (hints name neither precision nor scale; give a schema for Avro's decimal) |
| Struct, dataclass, TypedDict | record, under the class's name and the fields' encoded names |
| list, set, tuple | array |
| dict | map |
| Enum of names | enum; of other texts: string; of ints: long |
| A, B, None in a union | union, the default's branch first |
| tag of a tagged Struct | a field with an enum of one symbol, which tells the branches of a union apart |

Defaults become schema defaults, so that a field added with one can be read from older records. What Avro cannot say is
refused at declaration: NamedTuple and array_like Structs, NotRequired keys, `object`, two lists or two dicts in a union.
"""

import enum
import math
import re
from dataclasses import dataclass, field
from typing import Final

import msgspec
from msgspec import inspect

from streamlet.codecs.errors import UnsupportedType
from streamlet.codecs.hints import is_list, name_of
from streamlet.codecs.structure import shape_of

Schema = str | list["Schema"] | dict[str, object]

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SIMPLE: Final[dict[type[inspect.Type], Schema]] = {
    inspect.NoneType: "null",
    inspect.BoolType: "boolean",
    inspect.IntType: "long",
    inspect.FloatType: "double",
    inspect.StrType: "string",
    inspect.BytesType: "bytes",
    inspect.ByteArrayType: "bytes",
    inspect.DateTimeType: {"type": "long", "logicalType": "timestamp-micros"},
    inspect.DateType: {"type": "int", "logicalType": "date"},
    inspect.TimeType: {"type": "long", "logicalType": "time-micros"},
    inspect.TimeDeltaType: "string",
    inspect.DecimalType: "string",
    inspect.UUIDType: {"type": "string", "logicalType": "uuid"},
}
_ARRAYS: Final = (inspect.ListType, inspect.SetType, inspect.FrozenSetType, inspect.VarTupleType, inspect.CollectionType)
_KEYS: Final = (inspect.StrType, inspect.IntType, inspect.UUIDType, inspect.EnumType, inspect.LiteralType)
_Record = inspect.StructType | inspect.DataclassType | inspect.TypedDictType


def derive_schema(hint: object) -> Schema:
    """The Avro schema of a type."""
    return _Deriving(name_of(hint)).schema_of(shape_of(hint))


@dataclass(slots=True)
class _Deriving:
    declared: str
    classes: dict[str, type] = field(default_factory=dict[str, type])  # Avro knows types by name: one class per name

    def schema_of(self, shape: inspect.Type) -> Schema:
        if isinstance(shape, inspect.Metadata):
            return self.schema_of(shape.type)
        if isinstance(shape, inspect.DateTimeType) and shape.tz is False:
            raise self._refused(
                "an Avro timestamp is a moment, and this datetime has no zone",
                "Drop tz=False, or give a schema with local-timestamp-micros",
            )
        if type(shape) in _SIMPLE:
            return _SIMPLE[type(shape)]
        if isinstance(shape, _ARRAYS):
            return {"type": "array", "items": self.schema_of(shape.item_type)}
        if isinstance(shape, inspect.TupleType):
            return {"type": "array", "items": self._union([self.schema_of(item) for item in shape.item_types])}
        if isinstance(shape, inspect.DictType):
            if not isinstance(shape.key_type, _KEYS):
                raise self._refused("an Avro map has texts as keys", "Use str, int, UUID or Enum keys, or a list of records")
            return {"type": "map", "values": self.schema_of(shape.value_type)}
        if isinstance(shape, inspect.UnionType):
            return self._union([self.schema_of(member) for member in shape.types])
        if isinstance(shape, inspect.LiteralType):
            return self._union([_scalar(value) for value in shape.values])
        if isinstance(shape, inspect.EnumType):
            return self._enum(shape.cls)
        if isinstance(shape, inspect.StructType | inspect.DataclassType | inspect.TypedDictType):
            return self._record(shape)
        what = (
            "a NamedTuple has no field names in its encoded form"
            if isinstance(shape, inspect.NamedTupleType)
            else "Avro needs a declared type"
        )
        raise self._refused(f"{what} ({type(shape).__name__})", 'Use a Struct or a dataclass, or codec="json"')

    def _record(self, shape: _Record) -> Schema:
        name = self._named(shape.cls)
        if name is None:
            return _avro_name(shape.cls)
        fields: list[object] = []
        if isinstance(shape, inspect.StructType):
            if shape.array_like:
                raise self._refused(f"{name} is array_like", "Drop array_like: Avro's records carry no field names anyway")
            if shape.tag_field is not None:
                if not isinstance(shape.tag, str) or not _NAME.fullmatch(shape.tag):
                    raise self._refused(f"the tag {shape.tag!r} of {name} is no Avro name", "Use letters, digits and '_' in tags")
                fields.append({"name": shape.tag_field, "type": {"type": "enum", "name": f"{name}_tag", "symbols": [shape.tag]}})
        fields.extend(self._field(one, shape) for one in shape.fields)
        return {"type": "record", "name": name, "fields": fields}

    def _field(self, one: inspect.Field, owner: _Record) -> dict[str, object]:
        if not _NAME.fullmatch(one.encode_name):
            raise self._refused(f"the field {one.encode_name!r} is no Avro name", "Use letters, digits and '_' in field names")
        if isinstance(owner, inspect.TypedDictType) and not one.required:
            raise self._refused(f"the key {one.name!r} may be missing, and an Avro record has all its fields", "Declare it as `T | None`")
        schema = self.schema_of(one.type)
        default = _default_of(one)
        if default is msgspec.NODEFAULT:
            return {"name": one.encode_name, "type": schema}
        if isinstance(schema, list):
            fitting = [branch for branch in schema if _fits(default, branch)]
            if not fitting:
                return {"name": one.encode_name, "type": schema}
            schema = [fitting[0], *(branch for branch in schema if branch is not fitting[0])]
        elif not _fits(default, schema):
            return {"name": one.encode_name, "type": schema}
        return {"name": one.encode_name, "type": schema, "default": default}

    def _enum(self, cls: type[enum.Enum]) -> Schema:
        values = [member.value for member in cls]
        if not all(isinstance(value, str) and _NAME.fullmatch(value) for value in values):
            return self._union([_scalar(value) for value in values])
        name = self._named(cls)
        return _avro_name(cls) if name is None else {"type": "enum", "name": name, "symbols": values}

    def _union(self, branches: list[Schema]) -> Schema:
        flat: list[Schema] = []
        for branch in branches:
            for one in branch if isinstance(branch, list) else [branch]:
                if one not in flat:
                    flat.append(one)
        kinds = [one["type"] for one in flat if isinstance(one, dict) and one["type"] in ("array", "map")]
        if len(set(kinds)) < len(kinds):
            raise self._refused("an Avro union holds at most one list and one dict", "Wrap one of them in a Struct")
        flat.sort(key=lambda one: one != "null")
        return flat[0] if len(flat) == 1 else flat

    def _named(self, cls: type) -> str | None:
        """The name under which to define the class, or None if that is done."""
        name = _avro_name(cls)
        if name not in self.classes:
            self.classes[name] = cls
            return name
        if self.classes[name] is cls:
            return None
        raise self._refused(f"two classes are called {name}", "Rename one of them: Avro knows types by name only")

    def _refused(self, why: str, fix: str) -> UnsupportedType:
        return UnsupportedType(f"{self.declared} in Avro", why, fix)


def _avro_name(cls: type) -> str:
    return re.sub(r"[^A-Za-z0-9_]+", "_", cls.__name__).strip("_")


def _scalar(value: object) -> Schema:
    return "null" if value is None else "string" if isinstance(value, str) else "long"


def _default_of(one: inspect.Field) -> object:
    if one.default_factory is list or one.default_factory is set or one.default_factory is frozenset:
        return []
    if one.default_factory is dict:
        return {}
    if isinstance(one.default, enum.Enum):
        return one.default.value
    if one.default in ((), frozenset()):
        return []
    return one.default.decode("latin-1") if isinstance(one.default, bytes) else one.default


def _fits(default: object, schema: Schema) -> bool:
    """Whether a default may stand beside this schema: scalars and empty containers only, never a logical type."""
    match schema:
        case "null":
            return default is None
        case "boolean":
            return isinstance(default, bool)
        case "long":
            return isinstance(default, int) and not isinstance(default, bool) and -(2**63) <= default < 2**63
        case "double":
            return isinstance(default, int | float) and not isinstance(default, bool) and math.isfinite(default)
        case "string" | "bytes":
            return isinstance(default, str)
        case {"type": "enum", "symbols": symbols}:
            return is_list(symbols) and default in symbols
        case {"type": "array"}:
            return default == []
        case {"type": "map"}:
            return default == {}
        case _:
            return False
