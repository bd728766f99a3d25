"""What the doctor says of facts: severities, remedies, and how findings are shown."""

from __future__ import annotations

import pytest

from snapshotter.doctor import rules_machine, rules_source
from snapshotter.doctor.facts import Clock, CollectionFacts, Ids, Java, Kind, Package, Place
from snapshotter.doctor.finding import Area, Finding, Severity, in_order
from snapshotter.doctor.report import as_json, ending, exit_code, lines, next_command
from snapshotter.doctor.rules_collections import captured
from snapshotter.position.runway import Oplog
from streaming.namespaces import Namespace
from streaming.positions import ClusterTime

ORDERS = Namespace("shop", "orders")
OK, NOTE, WARNING, ERROR = Severity
HOUR = 3_600


def finding(severity: Severity, area: Area = Area.OPTIONS, **more: str) -> Finding:
    return Finding(
        area, severity, more.get("subject", "it"), more.get("what", "is so"), more.get("remedy", "")
    )


@pytest.mark.parametrize(
    ("facts", "severity", "said"),
    [
        (CollectionFacts(ORDERS, capped=True), NOTE, "is capped"),
        (CollectionFacts(ORDERS, clustered=True), NOTE, "is clustered"),
        (CollectionFacts(ORDERS, Kind.VIEW, based_on="shop.all"), NOTE, "is a view of shop.all"),
        (
            CollectionFacts(ORDERS, Kind.VIEW, listed=True, based_on="shop.all"),
            WARNING,
            "is a view of shop.all",
        ),
        (CollectionFacts(ORDERS, Kind.TIME_SERIES), NOTE, "is a time-series collection"),
        (CollectionFacts(ORDERS, Kind.TIME_SERIES, listed=True), WARNING, "is a time-series collection"),
        (CollectionFacts(ORDERS, collation="en (strength 2)"), NOTE, "has the collation en (strength 2)"),
        (
            CollectionFacts(ORDERS, collation="en (strength 2)", ids=Ids("string", "string", splits=False)),
            WARNING,
            "it is read as one window",
        ),
        (CollectionFacts(ORDERS, ids=Ids("number", "objectId")), NOTE, "from number to objectId"),
    ],
)
def test_what_is_said_of_a_collection(facts: CollectionFacts, severity: Severity, said: str) -> None:
    """Each kind by name; a warning where it works otherwise than somebody may think."""
    (found,) = (one for one in captured([facts]) if one.subject == "shop.orders")
    assert found.severity is severity
    assert said in found.what


def test_an_ordinary_collection_is_not_worth_a_word() -> None:
    """It is counted, and named with the others."""
    (found,) = captured([CollectionFacts(ORDERS, ids=Ids("objectId", "objectId"), documents=3)])
    assert (found.severity, found.what) == (OK, "1 collection is captured: shop.orders")


def test_nothing_captured_is_a_warning() -> None:
    """A view does not count."""
    first, *_ = captured([CollectionFacts(ORDERS, Kind.VIEW)])
    assert (first.severity, first.what) == (WARNING, "no collection is captured that there is by now")


def test_images_are_asked_for_only_where_they_are_counted_on() -> None:
    """A warning with what switches them on; a note where the engine does it; silence where nothing needs them."""
    off = [CollectionFacts(ORDERS, switch_on="db.runCommand(…)")]
    assert len(list(captured(off))) == 1
    _, warned = captured(off, lost="no post-images")
    assert (warned.severity, warned.what) == (WARNING, "no post-images")
    assert "db.runCommand(…)" in warned.remedy
    _, noted = captured(off, lost="no post-images", enable=True)
    assert noted.severity is NOTE
    assert len(list(captured([CollectionFacts(ORDERS, images=True)], lost="no post-images"))) == 1


@pytest.mark.parametrize(
    ("ahead", "within", "said"),
    [
        (0.2, 0.1, None),
        (90.0, 0.1, "90 s ahead of MongoDB's"),
        (-90.0, 0.1, "90 s behind MongoDB's"),
        (8.0, 4.0, None),
    ],
)
def test_clocks(ahead: float, within: float, said: str | None) -> None:
    """Apart by more than five seconds, whatever the network hides."""
    found = rules_source.clock(Clock(ahead, within))
    assert found.severity is (OK if said is None else WARNING)
    assert said is None or said in found.what


def oplog(hours: float, *, full: bool = True) -> Oplog:
    """One that reaches back for so many hours, and holds nothing more."""
    newest = ClusterTime(1_700_000_000, 1)
    oldest = ClusterTime(newest.t - round(hours * HOUR), 1)
    return Oplog(oldest, newest, 1_000, 1_000 if full else 1_000_000)


def said_of(
    found: Oplog, position: ClusterTime | None, documents: int = 0, speed: float | None = None
) -> list[Finding]:
    return list(
        rules_source.oplog(found, position, 48, [CollectionFacts(ORDERS, documents=documents)], speed)
    )


def test_an_oplog_that_is_long_enough() -> None:
    """For a position of now, and for a backfill at a guessed speed."""
    runway, backfill = said_of(oplog(100), None, 1_000_000)
    assert (runway.severity, runway.what) == (OK, "the oplog holds a position of now for 100.0 h")
    assert backfill.severity is OK
    assert "a guess, none was measured yet) takes about 3.3 min" in backfill.what


def test_an_oplog_that_is_too_short() -> None:
    """Under engine.oplog.warning.hours, and for a backfill at the speed that was measured."""
    runway, backfill = said_of(oplog(2), None, 30_000_000, 2_000)
    assert (runway.severity, backfill.severity) == (WARNING, WARNING)
    assert "2.0 h more, which is under engine.oplog.warning.hours=48" in runway.what
    assert "replSetResizeOplog" in runway.remedy
    assert "30,000,000 of them in shop.orders; 2,000 documents a second, as measured" in backfill.what
    assert "will take about 4.2 h, and the oplog holds the position for 2.0 h" in backfill.what


def test_a_position_that_is_lost() -> None:
    """An error, whatever the hours to warn of; nothing is said of backfills then."""
    gone = ClusterTime(1_600_000_000, 1)
    (lost,) = said_of(oplog(100), gone, 5)
    assert lost.severity is ERROR
    assert "snapshotter position reset -c FILE --to now --heal" in lost.remedy
    (never,) = rules_source.oplog(oplog(100), gone, 0, [], None)
    assert never.severity is ERROR


def test_an_oplog_that_is_too_young() -> None:
    """It does not tell its growth: a note."""
    (young,) = said_of(oplog(0.01, full=False), None)
    assert young.severity is NOTE


def test_a_warehouse() -> None:
    """Refused with the reason, without room, and with it."""
    (refused,) = rules_machine.place(Place("/a/b", "/a", "Read-only file system"), None)
    assert refused.severity is ERROR
    assert refused.what == "nothing can be written to /a/b: Read-only file system (/a)"
    _, room = rules_machine.place(Place("/a/b", "/a/b", free=5 << 30), 10 << 30)
    assert room.severity is WARNING
    assert room.what == "5.4 GB are free at /a/b, and the documents that are captured have 10.7 GB"
    there, room = rules_machine.place(Place("/a/b", "/a", free=50 << 30), 10 << 30)
    assert (there.severity, room.severity) == (OK, OK)
    assert "which the first start makes" in there.what
    assert rules_machine.far("s3a://lake/x", "s3a").severity is NOTE


def test_versions() -> None:
    """Another one, none, and the right ones."""
    wrong, gone = rules_machine.packages(
        [Package("pyspark", "4.2.0", "4.1.0"), Package("delta-spark", "4.4.0", None)]
    )
    assert (wrong.severity, gone.severity) == (ERROR, ERROR)
    assert wrong.what == "is installed as 4.1.0, and 4.2.0 is what this release works with"
    (right,) = rules_machine.packages([Package("pyspark", "4.2.0", "4.2.0")])
    assert (right.severity, right.what) == (OK, "pyspark 4.2.0")
    for java, severity in (
        (Java(None, None), ERROR),
        (Java("/java", 11), ERROR),
        (Java("/java", 17), OK),
        (Java("/java", None), OK),
    ):
        assert rules_machine.java(java).severity is severity


def test_the_exit_code_goes_by_the_worst() -> None:
    """0 also with notes, 1 with warnings, 3 with errors."""
    every = [finding(severity) for severity in Severity]
    assert [exit_code(every[:count]) for count in range(5)] == [0, 0, 0, 1, 3]


def test_names_are_whole_at_80_columns() -> None:
    """Lines break between words; one that is longer than a line stands whole on a line of its own."""
    name = f"shop.{'a-very.long_name' * 7}"
    findings = [
        finding(
            WARNING, subject=name, what="is " + "very " * 60 + name, remedy=f"drop {name} " + "soon " * 40
        )
    ]
    shown = [line for line, _ in lines(findings, 80)]
    assert sum(name in line for line in shown) == 3
    assert all(len(line) <= 80 or name in line for line in shown)
    assert shown[0] == "options"


def test_findings_are_shown_by_area_the_worst_first() -> None:
    """With how many there are of each kind, and what to enter next."""
    findings = in_order(
        [finding(OK, Area.WAREHOUSE), finding(NOTE), finding(ERROR), finding(WARNING), finding(WARNING)]
    )
    assert [one.severity for one in findings] == [ERROR, WARNING, WARNING, NOTE, OK]
    assert ending(findings) == "1 error, 2 warnings, 1 note; 1 fine"
    assert next_command(findings, "a.toml") == "snapshotter doctor -c a.toml"
    assert next_command(findings[1:], "a.toml") == "snapshotter run -c a.toml"
    told = as_json(findings, "a.toml")
    assert (told["exit_code"], told["counts"]["warning"], told["next"]) == (
        3,
        2,
        "snapshotter doctor -c a.toml",
    )
    assert told["findings"][0] == {
        "area": "options", "severity": "error", "subject": "it", "what": "is so", "remedy": "",
    }  # fmt: skip
