"""Pydantic models, read by their own validators and written by their own serializers, where pydantic is installed.

A model is a model to the last corner: aliases, validators and custom serializers apply. Fields are written under their
aliases, since that is the name they are read by; the first value written is read back, to be sure of it. Models are recognised without importing pydantic, so apps that use none
never load it.
"""

import hashlib
import json
import math
from collections.abc import Callable
from typing import Literal, cast, get_args

import msgspec

from streamlet.codecs.codec import BoundCodec
from streamlet.codecs.errors import DecodeError, EncodeError, UnsupportedType, shown
from streamlet.codecs.hints import is_list, items_of, name_of


def has_models(hint: object) -> bool:
    """Whether a pydantic model (or pydantic dataclass) stands anywhere in the hint."""
    if isinstance(hint, type) and hasattr(hint, "__pydantic_core_schema__"):
        return True
    return any(has_models(argument) for argument in get_args(hint))


def model_codec(hint: object, form: Literal["json", "msgpack"]) -> BoundCodec[object]:
    """A codec for a hint with models in it: pydantic validates all of it."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    declared = name_of(hint)
    try:
        adapter: TypeAdapter[object] = TypeAdapter(hint)  # type: ignore[arg-type]  # the hint is known only at run time
        schema = adapter.json_schema(by_alias=True)
    except PydanticUserError as error:
        raise UnsupportedType(declared, str(error).splitlines()[0].rstrip("."), "Change the model so that JSON can carry it") from error
    fingerprint = hashlib.sha256(json.dumps(_bare(schema), sort_keys=True).encode()).hexdigest()[:12]
    read = adapter.validator.validate_json if form == "json" else _msgpack_reader(adapter.validator.validate_python)
    is_instance = adapter.validator.isinstance_python
    to_json, to_python = adapter.serializer.to_json, adapter.serializer.to_python

    def encode(value: object) -> bytes:
        if not is_instance(value, strict=True):
            raise EncodeError(declared, shown(value), f"it is not {declared}")
        if form == "json":
            data = to_json(value, by_alias=True, round_trip=True, warnings="error")
            if b"null" in data and _has_no_number(to_python(value)):
                raise EncodeError(declared, shown(value), 'JSON has no NaN and no infinity; use None, or codec="msgpack"')
        else:
            data = msgspec.msgpack.encode(to_python(value, mode="json", by_alias=True, round_trip=True, warnings="error"))
        if not proven:
            prove(value, data)
        return data

    proven: list[bool] = []  # filled by the first value that reads back: aliases and serializers are the same for all

    def prove(value: object, data: bytes) -> None:
        try:
            read(data)
        except ValueError as error:
            reason = f"it cannot be read back as {declared}, whose validation and serialization aliases differ ({error})"
            raise EncodeError(declared, shown(value), reason) from error
        proven.append(True)

    def decode(data: bytes) -> object:
        try:
            return read(data)
        except RecursionError as error:
            raise DecodeError(declared, "it is nested too deeply") from error

    return BoundCodec(encode, decode, f"{form} pydantic {declared} {fingerprint}", declared)


def _msgpack_reader(validate: Callable[[object], object]) -> Callable[[bytes], object]:
    unpack = msgspec.msgpack.Decoder().decode
    return lambda data: validate(unpack(data))


def _has_no_number(value: object) -> bool:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float) and not math.isfinite(item):
            return True
        stack.extend(items_of(item))
    return False


def _bare(schema: object) -> object:
    """A JSON schema without its prose."""
    if isinstance(schema, dict):
        entries = cast("dict[str, object]", schema)  # JSON has no other keys
        return {key: _bare(value) for key, value in entries.items() if not (key in ("description", "title") and isinstance(value, str))}
    return [_bare(item) for item in schema] if is_list(schema) else schema
