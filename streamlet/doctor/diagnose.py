"""The whole examination, in the order in which a reader would look; a later check is left out when an earlier one explains it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from streamlet.config import Layer, Settings
from streamlet.config_file import default_state_dir, load
from streamlet.doctor import machine
from streamlet.doctor.findings import Finding, error, ok, skipped, warning
from streamlet.doctor.reach import Probe, Reach, probe
from streamlet.doctor.wire import ApiVersions
from streamlet.errors import ConfigError

NEEDED: Final = {  # request number → (name, version): what transactions as streamlet uses them rest on
    22: ("InitProducerId", 1),
    24: ("AddPartitionsToTxn", 1),
    25: ("AddOffsetsToTxn", 1),
    26: ("EndTxn", 1),
    28: ("TxnOffsetCommit", 3),  # carries the group's generation, from release 2.5
}
ALLOWED_SKEW_MS: Final = 1_000
_CONNECT_S: Final = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What to examine. `read_only` leaves out what writes to the cluster, even for a moment."""

    command_line: Layer
    app: str | None = None
    config_file: Path | None = None
    read_only: bool = False
    timeout_s: float = 10.0


def examine(what: Examination) -> list[Finding]:
    """Look at the machine, the settings and the brokers."""
    settings, finding = _settings(what)
    folder = settings.storage.state_dir if settings else default_state_dir()
    findings = [machine.check_python(), machine.check_java(), machine.check_disk(folder), machine.check_state_folder(folder), finding]
    if settings is None:
        return [*findings, skipped("broker", "the settings come first")]
    return [*findings, *_brokers(settings, what)]


def _settings(what: Examination) -> tuple[Settings | None, Finding]:
    try:
        settings = load(what.app, what.command_line, config_file=what.config_file)
    except ConfigError as wrong:
        return None, error("settings", str(wrong), "Correct what is named; every other setting keeps its place.")
    return settings, ok("settings", f"brokers {settings.connection.brokers}, from: {settings.origins['brokers']}")


def _brokers(settings: Settings, what: Examination) -> Iterator[Finding]:
    addresses = settings.connection.brokers.split(",")
    probes = [probe(address, settings.connection.properties, _CONNECT_S) for address in addresses]
    best = max(probes, key=lambda one: one.reach.value)
    if best.reach is not Reach.KAFKA:
        yield judge_reach(best)
        yield skipped("cluster", "no connection")
        return
    unreachable = [one for one in probes if one.reach is not Reach.KAFKA]
    yield judge_reach(unreachable[0], others_work=True) if unreachable else judge_reach(best)
    assert best.versions is not None, "a Kafka that was reached has told its versions"
    yield judge_versions(best.versions)
    yield from _cluster(settings.connection.client_config, what)


def judge_reach(seen: Probe, *, others_work: bool = False) -> Finding:
    """What is behind an address, in words, with the fix."""
    if seen.reach is Reach.KAFKA:
        return ok("broker", f"Kafka answers at {seen.address}")
    found, fix = {
        Reach.UNKNOWN_HOST: (f"the host of {seen.address} is not known: {seen.detail}", "Check the name in --brokers, or the name server."),
        Reach.NOTHING_LISTENS: (
            f"nothing listens at {seen.address}",
            "Start a Kafka on this machine with `streamlet kafka up`, or name yours with --brokers host:port.",
        ),
        Reach.NO_ANSWER: (f"{seen.address} cannot be reached: {seen.detail}", "Check address, network and firewall."),
        Reach.NOT_KAFKA: (
            f"something listens at {seen.address}, but it is not Kafka: {seen.detail}",
            "Name a broker's client port with --brokers (often 9092); this one belongs to another program.",
        ),
        Reach.WANTS_TLS: (
            f"Kafka at {seen.address} wants TLS, and the settings say plain text",
            "Set security.protocol to SSL or SASL_SSL (--config security.protocol=SASL_SSL, or [kafka] in streamlet.toml).",
        ),
        Reach.WITHOUT_TLS: (
            f"Kafka at {seen.address} speaks plain text, and the settings say TLS",
            "Set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or name the TLS port of the broker.",
        ),
        Reach.CERTIFICATE_REFUSED: (
            f"the certificate of {seen.address} is not trusted: {seen.detail}",
            "Give the authority that signed it: --config ssl.ca.location=/path/to/ca.pem",
        ),
    }[seen.reach]
    return warning("broker", f"{found}; other brokers answer", fix) if others_work else error("broker", found, fix)


def judge_versions(versions: ApiVersions) -> Finding:
    """Whether the broker has every request that exactly-once rests on."""
    missing = [name for key, (name, version) in NEEDED.items() if versions.newest.get(key, -1) < version]
    if missing:
        return error(
            "broker version",
            f"{versions.release} lacks {', '.join(missing)}",
            "Use Apache Kafka 2.5 or newer; 4.x is what streamlet is tested with.",
        )
    return ok("broker version", f"Kafka {versions.release}")


def _cluster(config: dict[str, str], what: Examination) -> Iterator[Finding]:
    from streamlet.doctor import kafka  # late: a machine check needs no client

    yield ok("client", kafka.client_version())
    try:
        view = kafka.view_cluster(config, what.timeout_s)
    except kafka.Refused as refused:
        yield judge_login(refused.code, refused.text)
        yield skipped("transactions", "no login")
        return
    yield ok("cluster", f"{view.brokers} broker{'s' if view.brokers != 1 else ''}, {view.topics} topics")
    if what.read_only:
        yield skipped("transactions", "--read-only")
        yield skipped("clock", "--read-only")
        return
    try:
        kafka.try_transaction(config, what.timeout_s)
    except kafka.Refused as refused:
        yield judge_transaction(refused.code, refused.text)
    else:
        yield ok("transactions", "a transactional producer was accepted")
    try:
        skew = kafka.measure_clock(config, what.timeout_s)
    except kafka.Refused as refused:
        yield skipped("clock", f"not measured, as a short-lived topic was refused: {refused.text}")
    else:
        yield judge_clock(skew.ahead_ms, skew.uncertainty_ms)


def judge_login(code: str, text: str) -> Finding:
    """Why a client that reached the broker could not read metadata."""
    if code == "_AUTHENTICATION":
        fix = (
            "Check sasl.mechanism, sasl.username and sasl.password (--config, STREAMLET_KAFKA_SASL_PASSWORD or [kafka] in streamlet.toml)."
        )
        return error("cluster", f"the login was refused: {text}", fix)
    if code == "_INVALID_ARG":
        return error(
            "cluster", f"the client refuses the settings: {text}", "Correct the property in --config or [kafka] in streamlet.toml."
        )
    fix = "If it wants a login, set security.protocol, sasl.mechanism, sasl.username and sasl.password; else check that the addresses it advertises can be reached from here."
    return error("cluster", f"the broker answers, but gives no metadata: {text}", fix)


def judge_transaction(code: str, text: str) -> Finding:
    """Why no transactional producer could be had."""
    if "AUTHORIZATION" in code:
        fix = "Let this user Write and Describe transactional ids that begin with the app's name (and streamlet-doctor-)."
        return error("transactions", f"not allowed: {text}", fix)
    fix = "Check that the brokers hold __transaction_state with enough replicas (transaction.state.log.replication.factor and .min.isr)."
    return error("transactions", f"no transactional producer could be started: {text}", fix)


def judge_clock(ahead_ms: float, uncertainty_ms: float) -> Finding:
    """Whether machine and broker agree about the time."""
    direction = "ahead of" if ahead_ms > 0 else "behind"
    text = f"the broker's is {abs(ahead_ms):.0f} ms {direction} ours (± {uncertainty_ms:.0f} ms)"
    if abs(ahead_ms) - uncertainty_ms > ALLOWED_SKEW_MS:
        return warning(
            "clock", text, "Synchronise both clocks (chrony, ntpd): record timestamps and time-outs are compared across machines."
        )
    return ok("clock", text)
