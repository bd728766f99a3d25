"""What is to be said of this machine: room and rights where the tables will lie, Java, and the packages. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from snapshotter.doctor.facts import Java, Package, Place
from snapshotter.doctor.finding import Area, Finding, Severity
from snapshotter.failure_classes import CONDITIONS

_GIB = 1 << 30
JAVA = 17
WAREHOUSE = "delta.warehouse"


def place(found: Place, documents: int | None) -> Iterator[Finding]:
    """Whether a warehouse can be written to, and has room for ``documents``: the bytes of all that is captured (None:
    not known). Parquet takes less than that; rewriting files takes some of it a second time."""
    if found.refused:
        yield Finding(
            Area.WAREHOUSE,
            Severity.ERROR,
            WAREHOUSE,
            f"nothing can be written to {found.warehouse}: {found.refused} ({found.folder})",
            CONDITIONS["storage-denied"].next_step,
        )
        return
    made = "" if found.folder == found.warehouse else ", which the first start makes"
    yield Finding(Area.WAREHOUSE, Severity.OK, WAREHOUSE, f"{found.warehouse}{made}: can be written to")
    if found.free is None:
        return
    needed = max(documents or 0, _GIB)
    if found.free >= needed:
        yield Finding(Area.WAREHOUSE, Severity.OK, "room", f"{_gigabytes(found.free)} are free")
        return
    what = f"{_gigabytes(found.free)} are free at {found.folder}"
    if documents is not None and documents > _GIB:
        what += f", and the documents that are captured have {_gigabytes(documents)}"
    yield Finding(
        Area.WAREHOUSE, Severity.WARNING, "room", what, f"make room there, or let {WAREHOUSE} lie elsewhere"
    )


def far(location: str, scheme: str) -> Finding:
    """Of a warehouse that only Spark reaches: ``location`` is its address, ``scheme`` the address's beginning."""
    return Finding(
        Area.WAREHOUSE,
        Severity.NOTE,
        WAREHOUSE,
        f"{location}: only Spark reaches {scheme}, and none is started here, so rights and room are not looked at",
        "try it with `snapshotter status -c FILE`, which reads there",
    )


def packages(found: Iterable[Package]) -> Iterator[Finding]:
    """Whether Spark and Delta are of the versions that were tried together."""
    every = list(found)
    for one in every:
        if one.installed != one.wanted:
            have = "is not installed" if one.installed is None else f"is installed as {one.installed}"
            yield Finding(
                Area.VERSIONS,
                Severity.ERROR,
                one.name,
                f"{have}, and {one.wanted} is what this release works with",
                CONDITIONS["wrong-libraries"].next_step,
            )
    if all(one.installed == one.wanted for one in every):
        said = ", ".join(f"{one.name} {one.installed}" for one in every)
        yield Finding(Area.VERSIONS, Severity.OK, "packages", said)


def java(found: Java) -> Finding:
    """Whether there is a Java that Spark runs on."""
    if found.where is None:
        what = "there is none, on PATH or in JAVA_HOME, and Spark needs one"
    elif found.version is not None and found.version < JAVA:
        what = f"the one of {found.where} is version {found.version}, and Spark needs {JAVA} at least"
    else:
        known = "of a version that is not known" if found.version is None else str(found.version)
        return Finding(Area.VERSIONS, Severity.OK, "Java", f"{known} ({found.where})")
    return Finding(
        Area.VERSIONS,
        Severity.ERROR,
        "Java",
        what,
        f"install Java {JAVA}, and let it be found on PATH or in JAVA_HOME",
    )


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"
