"""Stored entries as people read them: the key, the path below it and the value, taken apart by the store's layout."""

from collections.abc import Callable
from dataclasses import dataclass

from streamlet.state.entries import RESERVED
from streamlet.state.handle import TASK_KEY
from streamlet.state.keys import key_decoder, key_encoder, part, split
from streamlet.state.spec import Kind, Scope, StoreSpec
from streamlet.state.store import ELEMENT, HEADER
from streamlet.state.values import value_codec


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a store. `key` is None for task-level state; `path` holds map fields, a Set's element or a Log's index."""

    key: object
    path: tuple[object, ...]
    value: object  # None for a Set


EntryReader = Callable[[bytes, bytes], Entry | None]


def entry_reader(spec: StoreSpec) -> EntryReader:
    """Takes stored bytes apart; gives None for entries that are the store's own business."""
    decode_key = key_decoder(spec.key) if spec.scope is Scope.KEY else None
    decode_fields = [key_decoder(field) for field in spec.fields]
    decode = None if spec.kind is Kind.SET else value_codec(spec.value, spec.codec).decode

    def read(data: bytes, stored: bytes) -> Entry | None:
        if data == RESERVED:
            return None
        if spec.kind is Kind.VALUE:
            assert decode is not None, "a Value has a value"
            return Entry(decode_key(data) if decode_key else None, (), decode(stored))
        key, at, path = None, 0, list[object]()
        if decode_key is not None:
            raw, at = split(data, at)
            key = decode_key(raw)
        for decode_field in decode_fields:
            raw, at = split(data, at)
            path.append(decode_field(raw))
        if spec.kind is Kind.LOG:
            kind, rest = data[at : at + 1], data[at + 1 :]
            if kind == HEADER:
                return None
            assert kind == ELEMENT, "a Log has headers and elements"
            path.append(int.from_bytes(rest, "big"))
        return Entry(key, tuple(path), None if decode is None else decode(stored))

    return read


def keys_of(spec: StoreSpec, key: object) -> Callable[[bytes], bool]:
    """Whether a stored key belongs to this record key."""
    if spec.scope is Scope.TASK:
        return lambda data: data != RESERVED and (spec.kind is not Kind.VALUE or data == TASK_KEY)
    wanted = key_encoder(spec.key)(key)
    if spec.kind is Kind.VALUE:
        return lambda data: data == wanted
    prefix = part(wanted)
    return lambda data: data.startswith(prefix)
