"""What an app promised to its own past, judged before anything is created or fenced."""

from collections.abc import Callable

import pytest

from streamlet import App, Value
from streamlet.evolution import IncompatibleChange
from streamlet.manifest import decode
from streamlet.partitioning import plan_partitions
from streamlet.runtime.promises import ControlLost, Loss, TopicsLost, check_promises, renew_promises
from streamlet.topics.facts import NewTopic, TopicFacts
from streamlet.topics.prepare import Prepared, Survey, missing_internal_topics
from streamlet.topology import Topology, build

CHANGELOG = "app-count-total-changelog"
TOPICS = ("words", CHANGELOG, "app-control", "app-members", "app-commits")


def counting(app: App) -> None:
    words = app.topic("words", key=str, value=int)

    @app.process(words)
    def count(n: int, total: Value[int]) -> None:
        total.add(n)


def counting_texts(app: App) -> None:
    words = app.topic("words", key=str, value=int)

    @app.process(words)
    def count(n: int, total: Value[str]) -> None:
        total.set(str(n))


def topology_of(declare: Callable[[App], None]) -> Topology:
    app = App("app")
    declare(app)
    return build(app)


def topics(**ids: str) -> dict[str, TopicFacts]:
    """Topics with two partitions (one for control and members), each with the id given or one made of its name."""
    single = {"app-control", "app-members"}
    return {name: TopicFacts(name, 1 if name in single else 2, ids.get(name.replace("-", "_"), f"id of {name}")) for name in TOPICS}


def survey(existing: dict[str, TopicFacts], new: tuple[NewTopic, ...] = ()) -> Survey:
    return Survey(existing, new, {"words": 2})


def prepared(existing: dict[str, TopicFacts]) -> Prepared:
    counts = {name: facts.partitions for name, facts in existing.items()}
    return Prepared(counts, {"words": 2}, {name: facts.topic_id for name, facts in existing.items()})


def first_manifest() -> bytes:
    renewed = renew_promises(None, topology_of(counting), prepared(topics()), ())
    assert renewed is not None
    return renewed.content


def test_the_first_start_publishes_version_1_with_the_ids_of_all_topics() -> None:
    manifest = decode(first_manifest())

    assert manifest.version == 1
    assert {name: entry.topic_id for name, entry in manifest.topics.items()} == {name: f"id of {name}" for name in TOPICS}


def test_the_same_code_on_the_same_topics_publishes_nothing() -> None:
    stored = first_manifest()

    check_promises(stored, topology_of(counting), survey(topics()), ())
    assert renew_promises(stored, topology_of(counting), prepared(topics()), ()) is None


def test_a_deleted_changelog_is_refused_before_it_could_be_made_anew() -> None:
    existing = topics()
    del existing[CHANGELOG]

    with pytest.raises(TopicsLost) as refused:
        check_promises(first_manifest(), topology_of(counting), survey(existing), ())

    assert refused.value.losses == (Loss(CHANGELOG, "count-total", f"id of {CHANGELOG}", None),)
    assert "--accept-change count-total" in str(refused.value)


def test_a_changelog_that_was_replaced_is_refused() -> None:
    with pytest.raises(TopicsLost) as refused:
        check_promises(first_manifest(), topology_of(counting), survey(topics(app_count_total_changelog="another")), ())

    assert refused.value.losses == (Loss(CHANGELOG, "count-total", f"id of {CHANGELOG}", "another"),)


def test_a_loss_that_was_agreed_to_is_written_into_a_new_version() -> None:
    stored, replaced = first_manifest(), topics(app_count_total_changelog="another")

    check_promises(stored, topology_of(counting), survey(replaced), ["count-total"])
    renewed = renew_promises(stored, topology_of(counting), prepared(replaced), ["count-total"])

    assert renewed is not None
    assert renewed.version == 2
    assert decode(renewed.content).topics[CHANGELOG].topic_id == "another"
    check_promises(renewed.content, topology_of(counting), survey(replaced), ())


def test_members_and_commits_hold_no_truth_and_may_be_replaced() -> None:
    stored, replaced = first_manifest(), topics(app_members="another", app_commits="another")

    check_promises(stored, topology_of(counting), survey(replaced), ())
    renewed = renew_promises(stored, topology_of(counting), prepared(replaced), ())

    assert renewed is not None
    assert renewed.version == 2


def copying(app: App) -> None:
    words, copies = app.topic("words", key=str, value=int), app.topic("copies", key=str, value=int)

    @app.process(words, to=copies)
    def copy(n: int) -> int:
        return n


def test_a_source_without_state_may_grow_and_the_commits_topic_keeps_its_size() -> None:
    app = topology_of(copying)
    names = ("words", "copies", "app-control", "app-members", "app-commits")
    before = {name: TopicFacts(name, 1 if name in ("app-control", "app-members") else 2, f"id of {name}") for name in names}
    grown = before | {"words": TopicFacts("words", 6, "id of words")}
    first = renew_promises(None, app, prepared(before), ())
    assert first is not None

    size = plan_partitions(app, {"words": 6})
    check_promises(first.content, app, Survey(grown, (), size), ())
    renewed = renew_promises(first.content, app, prepared(grown), ())

    assert missing_internal_topics(app, grown, size) == []
    assert renewed is not None
    assert {name: entry.partitions for name, entry in decode(renewed.content).topics.items()} == {
        "words": 6,
        "app-control": 1,
        "app-members": 1,
        "app-commits": 2,
    }
    check_promises(renewed.content, app, Survey(grown, (), size), ())


def test_a_source_under_state_may_not_grow() -> None:
    grown = topics() | {"words": TopicFacts("words", 6, "id of words")}

    with pytest.raises(IncompatibleChange) as refused:
        check_promises(first_manifest(), topology_of(counting), Survey(grown, (), {"words": 6}), ())

    assert (refused.value.verdict.diff[0].subject, refused.value.verdict.diff[0].after) == ("words", "6 partitions")


def test_a_store_of_another_type_is_refused_with_the_difference() -> None:
    with pytest.raises(IncompatibleChange) as refused:
        check_promises(first_manifest(), topology_of(counting_texts), survey(topics()), ())

    (difference,) = refused.value.verdict.diff
    assert difference.subject == "count-total"


def test_a_control_topic_that_is_gone_while_changelogs_hold_state_is_refused() -> None:
    existing = topics()
    del existing["app-control"]

    with pytest.raises(ControlLost) as refused:
        check_promises(None, topology_of(counting), survey(existing), (), filled_changelogs=[CHANGELOG])

    assert refused.value.changelogs == (CHANGELOG,)
    check_promises(None, topology_of(counting), survey(existing), ["app-control"], filled_changelogs=[CHANGELOG])
