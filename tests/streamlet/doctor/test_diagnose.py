from streamlet.doctor.diagnose import NEEDED, judge_clock, judge_login, judge_reach, judge_transaction, judge_versions
from streamlet.doctor.findings import Severity
from streamlet.doctor.reach import Probe, Reach
from streamlet.doctor.wire import ApiVersions

ENOUGH = {key: version for key, (_, version) in NEEDED.items()}


def test_every_way_to_miss_a_broker_has_words_and_a_fix_of_its_own():
    findings = [judge_reach(Probe("host:1", reach)) for reach in Reach if reach is not Reach.KAFKA]

    assert {finding.severity for finding in findings} == {Severity.ERROR}
    assert len({finding.fix for finding in findings}) == len({finding.found for finding in findings}) == len(Reach) - 1


def test_one_lost_broker_of_several_is_a_warning():
    assert judge_reach(Probe("host:1", Reach.NOTHING_LISTENS), others_work=True).severity is Severity.WARNING


def test_a_broker_without_the_requests_of_exactly_once_is_an_error():
    finding = judge_versions(ApiVersions({**ENOUGH, 28: 2}, {}))

    assert finding.severity is Severity.ERROR
    assert "TxnOffsetCommit" in finding.found
    assert judge_versions(ApiVersions(ENOUGH, {})).severity is Severity.OK


def test_a_clock_counts_as_wrong_only_beyond_doubt():
    found = [judge_clock(ahead, doubt).severity for ahead, doubt in ((3, 1), (-1500, 900), (1500, 20), (-60_000, 5))]

    assert found == [Severity.OK, Severity.OK, Severity.WARNING, Severity.WARNING]


def test_a_refused_login_and_a_silent_broker_get_different_advice():
    refused, silent = judge_login("_AUTHENTICATION", "wrong password"), judge_login("_TRANSPORT", "timed out")

    assert (refused.severity, silent.severity) == (Severity.ERROR, Severity.ERROR)
    assert "sasl.password" in refused.fix
    assert "advertises" in silent.fix


def test_a_forbidden_transactional_id_names_the_right_to_give():
    assert "transactional ids" in judge_transaction("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "no").fix
