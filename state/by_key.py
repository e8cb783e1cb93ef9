"""A key-level store seen over all keys of the task, for batches: `totals[record.key].add(1)`."""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Self, TypeVar, cast

from streamlet.state.handle import State
from streamlet.state.keys import KeyCodec, loose_key_codec

K = TypeVar("K")
S = TypeVar("S", bound=State)


class ByKey(State, Generic[K, S]):
    """The state S of every key. Iterating gives the keys that hold something, in key order, as they are when it begins.

    `ByKey(Value[int])` makes one by hand, for unit tests; `ByKey(Value[int], {"a": Value(1)})` with something in it.
    """

    __slots__ = ("_codec", "_keys", "_view")
    _codec: KeyCodec
    _view: Callable[[bytes], S]
    _keys: Callable[[], Iterator[bytes]]

    def __init__(self, make: Callable[[], S], initial: Mapping[K, S] | None = None) -> None:
        codec = loose_key_codec()
        made = {codec.encode(key): state for key, state in (initial or {}).items()}

        def view(key: bytes) -> S:
            return made[key] if key in made else made.setdefault(key, make())

        self._bind(codec, view, lambda: iter(sorted(made)))

    @classmethod
    def _over(cls, codec: KeyCodec, view: Callable[[bytes], S], keys: Callable[[], Iterator[bytes]]) -> Self:
        made = cls.__new__(cls)
        made._bind(codec, view, keys)
        return made

    def _bind(self, codec: KeyCodec, view: Callable[[bytes], S], keys: Callable[[], Iterator[bytes]]) -> None:
        self._codec, self._view, self._keys = codec, view, keys

    def __getitem__(self, key: K) -> S:
        """The state of one key, empty or not. It stays with that key."""
        return self._view(self._codec.encode(key))

    def __iter__(self) -> Iterator[K]:
        decode = self._codec.decode
        return (cast("K", decode(key)) for key in self._keys())

    def __len__(self) -> int:
        """How many keys hold something: counts them, so it takes as long as reading them."""
        return sum(1 for _ in self._keys())

    def items(self) -> Iterator[tuple[K, S]]:
        """Keys that hold something, each with its state."""
        decode = self._codec.decode
        return ((cast("K", decode(key)), self._view(key)) for key in self._keys())


def bound_by_key(codec: KeyCodec, view: Callable[[bytes], State], keys: Callable[[], Iterator[bytes]]) -> ByKey[object, State]:
    """A view over the keys of a task."""
    return ByKey[object, State]._over(codec, view, keys)
