"""`streamlet topology` on the examples: text, Mermaid and JSON."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streamlet.cli.main import cli

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

WORD_COUNT_TEXT = """\
app word-count

tasks lines/<partition>
  reads lines (opaque bytes → str)
    split(str) gives many str → int
      through word-count-split-repartition (str → int)

tasks split/<partition>
  reads word-count-split-repartition (str → int)
    count(int, count-total) gives int
      to counts (str → int)
  keeps count-total: Value[int] per str

internal topics
  word-count-count-total-changelog (partitions as split, compact)
  word-count-split-repartition (partitions as split, delete)
  word-count-control (1 partition, compact)
  word-count-members (1 partition, delete)
  word-count-commits (partitions as the largest, compact)
"""

WORD_COUNT_MERMAID = """\
flowchart LR
  subgraph sub0["lines"]
    h0["split"]
  end
  subgraph sub1["split"]
    h1["count"]
    s2[("count-total")]
  end
  t3(["lines"])
  t3 --> h0
  t4(["word-count-split-repartition"])
  h0 --> t4
  t4 --> h1
  t5(["counts"])
  h1 --> t5
  h1 --- s2
"""


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["topology", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout


def test_text_is_for_people() -> None:
    assert run(str(EXAMPLES / "word_count.py")) == WORD_COUNT_TEXT


def test_mermaid_is_a_flowchart() -> None:
    assert run(str(EXAMPLES / "word_count.py"), "--format", "mermaid") == WORD_COUNT_MERMAID


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("[!_]*.py")), ids=lambda path: path.stem)
def test_every_line_of_a_chart_is_mermaid(example: Path) -> None:
    """The grammar of the few forms we write; every arrow joins boxes that are drawn."""
    label = r'"[^"\[\](){}<>]+"'
    box = rf"(?P<id>[hst]\d+)(\[{label}\]|\(\[{label}\]\)|\[\({label}\)\])"
    chart = run(str(example), "--format", "mermaid").splitlines()
    drawn = {match["id"] for line in chart if (match := re.fullmatch(rf"\s*{box}", line))}

    assert chart[0] == "flowchart LR"
    assert drawn
    for line in chart[1:]:
        if arrow := re.fullmatch(r"  ([hst]\d+) (?:-->|-\.->|---) ([hst]\d+)", line):
            assert set(arrow.groups()) <= drawn
        else:
            assert re.fullmatch(rf"  subgraph sub\d+\[{label}\]|  end|\s*{box}", line), line
    assert sum(line.startswith("  subgraph") for line in chart) == chart.count("  end")


def test_json_is_for_programs() -> None:
    document = json.loads(run(str(EXAMPLES / "payments.py"), "--json"))

    assert document["app"] == "payments"
    (sub,) = document["sub_topologies"]
    assert sub["name"] == "payments"
    assert [source["topic"] for source in sub["sources"]] == ["payments", "settlements"]
    assert [(handler["name"], handler["stores"]) for handler in sub["handlers"]] == [
        ("pay", ["account-balance", "account-holds"]),
        ("settle", ["account-balance", "account-holds"]),
    ]
    assert sub["stores"] == [
        {"name": "account-balance", "type": "Value[int] per str"},
        {"name": "account-holds", "type": "Map[str, int] per str"},
    ]
    assert document["dead_letters"] == ["payments-dead"]
    assert {topic["name"]: topic["partitions"] for topic in document["internal_topics"]} == {
        "payments-account-balance-changelog": "as payments",
        "payments-account-holds-changelog": "as payments",
        "payments-control": 1,
        "payments-members": 1,
        "payments-commits": "as the largest",
    }
