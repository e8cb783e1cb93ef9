"""New code against the manifest of the old one."""

from collections.abc import Callable, Iterator
from typing import Annotated

import msgspec
import pytest

from streamlet import App, Map, Record, Value, state
from streamlet.evolution import Change, Compatible, Difference, Incompatible, IncompatibleChange, compare
from streamlet.manifest import Manifest, NewerManifest, decode, encode, manifest_of
from streamlet.topology import build

COUNTS = {"lines": 4, "clicks": 4, "names": 2}


def manifest(declare: Callable[[App], None], counts: dict[str, int] = COUNTS, ids: dict[str, str] | None = None) -> Manifest:
    app = App("app")
    declare(app)
    return manifest_of(build(app), counts, ids or {})


def word_count(app: App) -> None:
    lines = app.topic("lines", value=str)

    @app.process(lines)
    def split(line: str) -> Iterator[Record[str, int]]:
        yield Record(line, 1)

    @app.process(split)
    def count(n: int, total: Value[int]) -> None:
        total.add(n)


def only_difference(verdict: Compatible | Incompatible) -> Difference:
    assert isinstance(verdict, Incompatible), verdict
    (difference,) = verdict.diff
    assert difference.way_on in str(IncompatibleChange(verdict))
    return difference


def compatible(verdict: Compatible | Incompatible) -> Compatible:
    assert isinstance(verdict, Compatible), verdict
    return verdict


def test_the_same_code_keeps_version_and_fingerprint() -> None:
    old, new = manifest(word_count), manifest(word_count)

    assert old.fingerprint == new.fingerprint
    assert compatible(compare(old, new)).manifest.version == 1
    assert compatible(compare(old, new)).news == ()


def test_a_manifest_survives_the_control_topic_and_begins_with_its_format() -> None:
    old = manifest(word_count, ids={"lines": "id-1"})

    data = encode(old)
    assert data[0] == 1
    assert decode(data) == old
    with pytest.raises(NewerManifest) as caught:
        decode(b"\x07" + data[1:])
    assert caught.value.format_version == 7


def test_the_fingerprint_is_that_of_the_code_alone() -> None:
    assert manifest(word_count).fingerprint == manifest(word_count, {"lines": 9}, {"lines": "other"}).fingerprint


def test_new_handlers_and_stores_raise_the_version() -> None:
    def more(app: App) -> None:
        word_count(app)
        clicks = app.topic("clicks", key=str, value=int)

        @app.process(clicks)
        def click(n: int, total: Value[int]) -> None:
            total.add(n)

    verdict = compatible(compare(manifest(word_count), manifest(more)))
    assert verdict.manifest.version == 2
    assert verdict.news == ("new handler click", "new store click-total: Value[int] per str", "new source clicks")
    assert verdict.manifest.fingerprint != manifest(word_count).fingerprint


def test_a_renamed_function_is_refused_with_name() -> None:
    def renamed(app: App) -> None:
        lines = app.topic("lines", value=str)

        @app.process(lines)
        def split(line: str) -> Iterator[Record[str, int]]:
            yield Record(line, 1)

        @app.process(split)
        def tally(n: int, total: Value[int]) -> None:
            total.add(n)

    difference = only_difference(compare(manifest(word_count), manifest(renamed)))
    assert (difference.change, difference.subject) == (Change.RENAMED, "count-total")
    assert (difference.before, difference.after) == ("store count-total: Value[int] per str", "store tally-total: Value[int] per str")
    assert difference.way_on == '@app.process(…, name="count")  # the old name keeps the state of "count-total"'


def test_a_renamed_function_with_its_old_name_goes_on() -> None:
    def renamed(app: App) -> None:
        lines = app.topic("lines", value=str)

        @app.process(lines)
        def split(line: str) -> Iterator[Record[str, int]]:
            yield Record(line, 1)

        @app.process(split, name="count")
        def tally(n: int, total: Value[int]) -> None:
            total.add(n)

    assert compatible(compare(manifest(word_count), manifest(renamed))).news == ()


def copying(name: str, *, to: str = "copies", pinned: str | None = None) -> Callable[[App], None]:
    """A handler without state, whose function has this name."""

    def declare(app: App) -> None:
        lines, copies = app.topic("lines", value=str), app.topic(to, value=str)

        def copy(line: str) -> str:
            return line

        copy.__name__ = name
        app.process(lines, to=copies, name=pinned)(copy)

    return declare


def test_a_renamed_function_without_state_is_refused_with_name() -> None:
    old, new = manifest(copying("copy")), manifest(copying("duplicate"))

    difference = only_difference(compare(old, new))
    assert (difference.change, difference.subject) == (Change.RENAMED, "copy")
    assert (difference.before, difference.after) == ("handler copy: process lines → copies", "handler duplicate: process lines → copies")
    assert difference.way_on == '@app.process(…, name="copy")  # keeps its name; or streamlet run FILE --accept-change copy'
    assert compatible(compare(old, manifest(copying("duplicate", pinned="copy")))).news == ()
    assert compatible(compare(old, new, accepted={"copy"})).news == ("new handler duplicate", "handler copy is gone")


def test_a_handler_that_another_one_replaces_may_go() -> None:
    verdict = compatible(compare(manifest(copying("copy")), manifest(copying("archive", to="archived"))))
    assert verdict.news == ("new handler archive", "handler copy is gone")


def test_a_handler_that_writes_elsewhere_goes_on_and_is_told() -> None:
    verdict = compatible(compare(manifest(copying("copy")), manifest(copying("copy", to="elsewhere"))))
    assert (verdict.manifest.version, verdict.news) == (2, ("handler copy is connected otherwise: process lines → elsewhere",))


def test_a_manifest_from_before_wiring_was_kept_can_be_read() -> None:
    old = manifest(copying("copy"))
    before = msgspec.structs.replace(old, wiring={})

    assert decode(encode(before).replace(b',"wiring":{}', b"")) == before
    assert compatible(compare(before, manifest(copying("duplicate")))).manifest.version == 2


def test_a_renamed_function_before_a_repartition_topic_is_refused_with_name() -> None:
    def renamed(app: App) -> None:
        lines = app.topic("lines", value=str)

        @app.process(lines)
        def cut(line: str) -> Iterator[Record[str, int]]:
            yield Record(line, 1)

        @app.process(cut)
        def count(n: int, total: Value[int]) -> None:
            total.add(n)

    verdict = compare(manifest(word_count), manifest(renamed))
    assert isinstance(verdict, Incompatible)
    assert [(one.change, one.subject) for one in verdict.diff] == [(Change.TASK, "count-total"), (Change.RENAMED, "app-split-repartition")]
    assert verdict.way_on[1] == '@app.process(…, name="split")  # the old name keeps what is on its way'


def test_a_renamed_parameter_is_refused_with_the_stores_name() -> None:
    def renamed(app: App) -> None:
        lines = app.topic("lines", value=str)

        @app.process(lines)
        def split(line: str) -> Iterator[Record[str, int]]:
            yield Record(line, 1)

        @app.process(split)
        def count(n: int, number: Value[int]) -> None:
            number.add(n)

    difference = only_difference(compare(manifest(word_count), manifest(renamed)))
    assert difference.change is Change.RENAMED
    assert difference.way_on == 'Annotated[Value[int], state(name="count-total")]  # the old name keeps the state'


def test_a_store_that_is_gone_is_refused_until_somebody_agrees() -> None:
    def less(app: App) -> None:
        lines = app.topic("lines", value=str)

        @app.process(lines)
        def split(line: str) -> None: ...

    old, new = manifest(word_count), manifest(less)
    verdict = compare(old, new)
    assert isinstance(verdict, Incompatible)
    assert [(one.change, one.subject) for one in verdict.diff] == [
        (Change.REMOVED, "count-total"),
        (Change.REMOVED, "app-split-repartition"),
    ]
    assert "--accept-change count-total" in verdict.way_on[0]
    assert compatible(compare(old, new, accepted={"count-total", "app-split-repartition"})).news == ("handler count is gone",)


def keyed(hint: object, key: object = str) -> Callable[[App], None]:
    def declare(app: App) -> None:
        clicks = app.topic("clicks", key=key, value=int)

        def count(n: int, total: Value[int]) -> None: ...

        count.__annotations__["total"] = Annotated[hint, state(name="total")]
        app.process(clicks)(count)

    return declare


class Before(msgspec.Struct, frozen=True):
    n: int


class Grown(msgspec.Struct, frozen=True):
    n: int
    more: str = ""


class Broken(msgspec.Struct, frozen=True):
    n: int
    more: str


def test_a_field_added_with_a_default_goes_on() -> None:
    verdict = compatible(compare(manifest(keyed(Value[Before])), manifest(keyed(Value[Grown]))))
    assert verdict.manifest.version == 2
    assert verdict.news == ("store total has a new value type that reads the old one",)


@pytest.mark.parametrize(
    ("old", "new", "after"),
    [
        (Value[int], Value[str], "Value[str] per str (the value was int and is str)"),
        (Value[int], Map[str, int], "Map[str, int] per str"),
        (Map[str, int], Map[int, int], "Map[int, int] per str"),
        (Value[Before], Value[Broken], "Value[Broken] per str (Before.more is new and has no default, so older values cannot be read)"),
    ],
)
def test_a_store_of_another_type_is_refused(old: object, new: object, after: str) -> None:
    difference = only_difference(compare(manifest(keyed(old)), manifest(keyed(new))))
    assert (difference.change, difference.subject, difference.after) == (Change.TYPE, "total", after)
    assert difference.way_on == 'streamlet reset app --store total  # starts it empty; or state(name="total-2") beside the old one'


def test_another_key_type_is_refused() -> None:
    verdict = compare(manifest(keyed(Value[int])), manifest(keyed(Value[int], int)))
    assert isinstance(verdict, Incompatible)
    assert [(one.change, one.subject) for one in verdict.diff] == [(Change.TYPE, "total"), (Change.CODEC, "clicks")]


def test_another_codec_is_refused() -> None:
    class Own:
        def encode(self, value: object) -> bytes:
            return str(value).encode()

        def decode(self, data: bytes) -> int:
            return int(data)

    def declare(app: App) -> None:
        clicks = app.topic("clicks", key=str, value=int)

        @app.process(clicks)
        def count(n: int, total: Annotated[Value[int], state(name="total", codec=Own())]) -> None: ...

    difference = only_difference(compare(manifest(keyed(Value[int])), manifest(declare)))
    assert (difference.change, difference.before) == (Change.CODEC, "codec default")


def test_more_partitions_under_state_are_refused() -> None:
    verdict = compare(manifest(keyed(Value[int])), manifest(keyed(Value[int]), {"clicks": 8}))
    assert isinstance(verdict, Incompatible)
    assert [(one.change, one.subject) for one in verdict.diff] == [
        (Change.PARTITIONS, "clicks"),
        (Change.PARTITIONS, "app-total-changelog"),
    ]
    assert (verdict.diff[0].before, verdict.diff[0].after) == ("4 partitions", "8 partitions")


def test_more_partitions_without_state_go_on() -> None:
    def stateless(app: App) -> None:
        clicks = app.topic("clicks", key=str, value=int)

        @app.process(clicks)
        def look(n: int) -> None: ...

    verdict = compatible(compare(manifest(stateless), manifest(stateless, {"clicks": 8})))
    assert verdict.manifest.version == 2


def test_a_topic_made_anew_is_noticed() -> None:
    old = manifest(keyed(Value[int]), ids={"app-total-changelog": "one"})
    new = manifest(keyed(Value[int]), ids={"app-total-changelog": "two"})

    difference = only_difference(compare(old, new))
    assert (difference.change, difference.subject) == (Change.RECREATED, "app-total-changelog")
    assert "streamlet reset app" in difference.way_on


def test_a_repartition_topic_carries_grown_values_but_no_others() -> None:
    def carrying(value: object) -> Callable[[App], None]:
        def declare(app: App) -> None:
            lines = app.topic("lines", value=str)

            def split(line: str) -> Record[str, int]: ...

            def count(n: int, total: Value[int]) -> None: ...

            split.__annotations__["return"] = Record[str, value]  # type: ignore[valid-type]
            count.__annotations__["n"] = value
            app.process(app.process(lines)(split))(count)

        return declare

    assert compatible(compare(manifest(carrying(Before)), manifest(carrying(Grown)))).manifest.version == 2
    broken = only_difference(compare(manifest(carrying(Before)), manifest(carrying(Broken))))
    assert (broken.change, broken.subject) == (Change.TYPE, "app-split-repartition")
    recoded = only_difference(compare(manifest(carrying(int)), manifest(carrying(float))))
    assert recoded.change is Change.CODEC
