"""What an app has declared so far, by kind and name, in the order of its file.

Invariant: names are unique per kind, and nothing is ever replaced. The only writer is the module that declares the app,
while it is imported.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ParamSpec, TypeVar, get_args, get_origin

from streamlet.declaration import DeclarationError, place_of
from streamlet.declare import declare
from streamlet.handler import AnyHandler, AnyTopic, Handler, Wiring
from streamlet.hints import resolve_hints, shown
from streamlet.ids import RESERVED_SUFFIXES, checked_name
from streamlet.resource import Resource
from streamlet.stores import SharedStore
from streamlet.subject import Subject, identifier
from streamlet.topic import Topic

P = ParamSpec("P")
R = TypeVar("R")


class Declared:
    """Topics, handlers, shared stores and resources of one app."""

    def __init__(self, app: str) -> None:
        """Nothing yet, for the app of this name."""
        self.app = lasting_name("app", app)
        self.topics: dict[str, AnyTopic] = {}
        self.handlers: dict[str, AnyHandler] = {}
        self.stores: dict[str, SharedStore] = {}
        self.resources: dict[str, Resource] = {}

    def add_topic(self, topic: AnyTopic) -> None:
        """Remember a topic; its name must be new and none of the app's own."""
        subject = f"topic '{topic.name}'"
        if topic.name in self.topics:
            raise DeclarationError(
                subject, "it is declared twice", f"{identifier(topic.name)} = app.topic(…)  # once, and use the variable"
            )
        if topic.name.startswith(f"{self.app}-") and topic.name.endswith(RESERVED_SUFFIXES):
            problem = f"the app keeps names of the form {self.app}-…{_suffix(topic.name)} for itself"
            raise DeclarationError(subject, problem, f'app.topic("{topic.name}-copy")  # any other name')
        self.topics[topic.name] = topic

    def add_store(self, store: SharedStore) -> None:
        """Remember a shared store under its name."""
        if store.name in self.stores:
            fix = f"{identifier(store.name)} = app.store(…)  # once, and use the variable in every handler"
            raise DeclarationError(f"store '{store.name}'", "it is declared twice", fix)
        self.stores[store.name] = store

    def add_resource(self, function: Callable[[], Iterator[object]], local_names: Mapping[str, object]) -> Resource:
        """Check a resource function and remember it: no parameters, one value yielded."""
        name = function.__name__
        subject, fix = f"resource '{name}'", f"def {name}() -> Iterator[Model]:"
        if name in self.resources:
            raise DeclarationError(subject, "it is declared twice", f"def {name}_2() -> …  # another name", None, place_of(function))
        hint = resolve_hints(function, local_names, subject).get("return")
        if inspect.signature(function).parameters:
            raise DeclarationError(subject, "it takes parameters, but nobody is there to pass them", fix, None, place_of(function))
        if not inspect.isgeneratorfunction(function):
            raise DeclarationError(subject, "it must yield the resource once, and close it after the yield", fix, None, place_of(function))
        if get_origin(hint) is None or not get_args(hint):
            raise DeclarationError(
                subject, f"its return hint is {shown(hint)}, not an Iterator of something", fix, None, place_of(function)
            )
        resource = self.resources[name] = Resource(name, function, get_args(hint)[0])
        return resource

    def add_handler(
        self, function: Callable[P, R], wiring: Wiring, name: str | None, local_names: Mapping[str, object]
    ) -> Handler[P, R, Any]:
        """Check a function and remember it as a handler."""
        if isinstance(function, Handler):
            raise DeclarationError(
                f"handler '{function.name}'",
                "it is declared twice by stacked decorators",
                "@app.process(first, second)  # one decorator, several sources",
                None,
                function.place,
            )
        candidate: object = function
        if not inspect.isfunction(candidate):
            raise DeclarationError(
                "@app.process", f"{function!r} is not a function", "@app.process(…)\n    def handler(value: int) -> int:"
            )
        chosen = lasting_name("handler", _name_of(function) if name is None else name)
        if chosen in self.handlers:
            raise DeclarationError(
                f"handler '{chosen}'",
                f"the name is taken by the handler at {self.handlers[chosen].place}",
                f'@app.process(…, name="{chosen}-2")',
                None,
                place_of(function),
            )
        for source in wiring.sources:
            self.check_member(f"handler '{chosen}'", source)
        subject = Subject.of(function, chosen, local_names)
        handler = declare(function, subject, wiring, app=self.app, stores=self.stores, earlier=self.handlers)
        self.handlers[chosen] = handler
        return handler

    def check_member(self, subject: str, thing: object) -> None:
        """Refuse what is no topic or handler of this app."""
        if isinstance(thing, str):
            raise DeclarationError(
                subject, f"{thing!r} is a name, not a topic", f'{identifier(thing)} = app.topic("{thing}", key=…, value=…)'
            )
        if isinstance(thing, Topic):
            known: object = self.topics.get(thing.name)
        elif isinstance(thing, Handler):
            known = self.handlers.get(thing.name)
        else:
            raise DeclarationError(subject, f"{thing!r} is neither a topic nor a handler", "@app.process(lines)  # lines = app.topic(…)")
        if known is not thing:
            raise DeclarationError(subject, f"{thing!r} belongs to another App", "declare it on this one: app.topic(…)")


def lasting_name(kind: str, name: str) -> str:
    """A name that will become part of topic names, file names and ids for as long as the app lives."""
    checked_name(kind, name)
    if name.endswith((*RESERVED_SUFFIXES, "-leader")) or name == "leader":
        fix = f'name="{name.rpartition("-")[0] or "lead"}"'
        raise DeclarationError(f"{kind} '{name}'", f"names ending in {_suffix(name)} are reserved", fix)
    return name


def _suffix(name: str) -> str:
    return next((suffix for suffix in RESERVED_SUFFIXES if name.endswith(suffix)), "leader")


def _name_of(function: Callable[..., object]) -> str:
    if function.__name__ == "<lambda>":
        raise DeclarationError(
            "@app.process", "a lambda has no name and no hints", "def handler(value: int) -> int:", None, place_of(function)
        )
    return function.__name__
