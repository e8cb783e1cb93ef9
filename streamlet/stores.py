"""Which store a handler's parameter means: its name, its shape and who else may use it.

A parameter of a state type declares a store of its own, `<handler>-<parameter>`. A default made by `app.store(...)`,
or that store's name in `state(name=)`, means a store that several handlers share.

Invariant: two handlers have a store of one name only if it was declared by `app.store`, and then of one shape.
"""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Final, cast

from streamlet.declaration import DeclarationError
from streamlet.durations import Duration
from streamlet.errors import ConfigError
from streamlet.hints import metadata, plain, shown
from streamlet.resource import Placeholder
from streamlet.state.declaration import PER_TASK, Declaration, View, declare_state
from streamlet.state.spec import AnyCodec, StoreSpec
from streamlet.state.types import StateOptions, state
from streamlet.subject import Input, Subject


class SharedStore(Placeholder):
    """Declared by `app.store(...)`: stands as the default of a parameter in every handler that shares the store."""

    kind = "store"

    def __init__(self, name: str, hint: object, options: StateOptions) -> None:
        """Made by `app.store` only."""
        super().__init__(name)
        self.hint: Final = hint
        self.options: Final = options


@dataclass(frozen=True, slots=True)
class StoreUse:
    """A state parameter: the stores behind it and how the handler sees them. `shared` means others may use them too."""

    declaration: Declaration
    shared: bool

    @property
    def name(self) -> str:
        """The store's name, or that of its group."""
        return self.declaration.name

    @property
    def specs(self) -> tuple[StoreSpec, ...]:
        """One per store: several for a group."""
        return self.declaration.specs


def shared_store(name: str, hint: object, *, ttl: Duration | timedelta | None, codec: object) -> SharedStore:
    """Check what `app.store` was given. The key type is the first handler's, so a str stands in for it here."""
    subject, fix = f"store '{name}'", f'app.store("{name}", Value[int])  # or Map, Log, Set, a Group'
    try:
        options = cast("StateOptions", state(name=name, ttl=ttl, codec=cast("AnyCodec | None", codec)))  # bound to nothing yet
        declare_state(name, hint, key=str, options=options)
    except (ConfigError, AttributeError) as error:
        raise DeclarationError(subject, f"{shown(hint)} cannot be used ({error})", fix) from error
    return SharedStore(name, hint, options)


def read_store(subject: Subject, index: int, given: Input, stores: Mapping[str, SharedStore], *, batch: bool) -> StoreUse:
    """The store that the state parameter at `index` means, or a refusal with the corrected line."""
    parameter = subject.parameters[index]
    name, hint = parameter.name, subject.hints[parameter.name]
    default, options = parameter.default, _options(hint)
    if isinstance(default, StateOptions):
        if options is not None:
            problem = "its options are given twice, in Annotated and as the default"
            raise subject.refuse(problem, subject.line(index, f"{name}: {_state_shown(hint)} = state(…)"), name)
        options = default
    elif default is not inspect.Parameter.empty and not isinstance(default, SharedStore):
        problem = f"state is passed by the runtime, so the default {default!r} would never be used"
        raise subject.refuse(problem, subject.line(index, f"{name}: {_state_shown(hint)}"), name)
    store = default if isinstance(default, SharedStore) else stores.get(options.name or "") if options else None
    declared = _declaration(subject, index, given, store, options)
    if declared.view is View.CURRENT_KEY and batch:
        fix = subject.line(index, f"{name}: ByKey[{shown(given.key_type)}, {_state_shown(hint)}]")
        raise subject.refuse("a batch has no single key to keep state by", f"{fix}  # or PerTask[{_state_shown(hint)}]", name)
    if declared.view is not View.TASK and not given.has_key:
        raise subject.refuse("state is kept by key, and the key here is opaque bytes: add key=", given.key_fix, name)
    return StoreUse(declared, store is not None)


def _state_shown(hint: object) -> str:
    return f"PerTask[{shown(hint)}]" if PER_TASK in metadata(hint) else shown(hint)


def _options(hint: object) -> StateOptions | None:
    return next((mark for mark in metadata(hint) if isinstance(mark, StateOptions)), None)


def _declaration(subject: Subject, index: int, given: Input, store: SharedStore | None, options: StateOptions | None) -> Declaration:
    name = subject.parameters[index].name
    hint = subject.hints[name]
    try:
        if store is None:
            return declare_state(f"{subject.name}-{name}", _bare(hint), key=given.key_type, options=options)
        declared = declare_state(store.name, _bare(hint), key=given.key_type, options=store.options)
        meant = declare_state(store.name, store.hint, key=given.key_type, options=store.options)
    except ConfigError as error:
        fix = f"{subject.line(index, f'{name}: Value[int]')}  # a state type whose parts can be stored"
        raise subject.refuse(f"{_state_shown(hint)} cannot be used: {error}".rstrip("."), fix, name) from error
    if declared.specs != meant.specs:
        fix = subject.line(index, f"{name}: {_state_shown(store.hint)} = {store.name}")
        raise subject.refuse(f"its type is {_state_shown(hint)}, but store '{store.name}' is {_state_shown(store.hint)}", fix, name)
    return declared


def _bare(hint: object) -> object:
    """The hint with its marks, but without options: those are passed on their own."""
    marks = tuple(mark for mark in metadata(hint) if not isinstance(mark, StateOptions))
    return Annotated[(plain(hint), *marks)] if marks else plain(hint)


def check_sharing(subject: Subject, uses: Iterable[StoreUse], others: Mapping[str, Iterable[StoreUse]]) -> None:
    """Refuse a store that another handler has by accident, or by another key. `others` are the handlers declared before."""
    mine: set[str] = set()
    for use in uses:
        if use.name in mine:
            raise subject.refuse(f"two of its parameters mean the store '{use.name}'", "Annotated[…, state(name=…)]  # a name for each")
        mine.add(use.name)
        for handler, theirs in others.items():
            for other in theirs:
                if other.name == use.name:
                    _check_pair(subject, use, handler, other)


def _check_pair(subject: Subject, use: StoreUse, handler: str, other: StoreUse) -> None:
    if not (use.shared and other.shared):
        fix = f'store = app.store("{use.name}", …)  # and give it as the default in both handlers'
        raise subject.refuse(f"its store '{use.name}' has the name of a store of handler '{handler}'", fix)
    keys = (use.specs[0].key, other.specs[0].key)
    if use.specs[0].scope is other.specs[0].scope and keys[0] != keys[1]:
        problem = f"it would share store '{use.name}' by key {shown(keys[0])} with handler '{handler}', which has key {shown(keys[1])}"
        raise subject.refuse(problem, f'app.store("{use.name}-by-{shown(keys[0]).lower()}", …)  # a store for each key type')
