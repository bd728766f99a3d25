"""The published configurations in ``tests/data/debezium``, made to fit where they run."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parents[1] / "data" / "debezium"


def fitted(name: str, folder: Path, **words: str) -> Path:
    """The configuration of this ``name``, copied into ``folder`` with each word replaced that ``words`` has;
    ``SECRETS`` is a folder of secrets in there."""
    text = (FOLDER / name).read_text(encoding="utf-8")
    for word, stands_for in {"SECRETS": str(folder / "secrets"), **words}.items():
        assert word in text or word == "SECRETS", f"{name} has no {word}"
        text = text.replace(word, stands_for)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def keep_secrets(folder: Path, **secrets: str) -> None:
    """One file for each in the folder of secrets, and all of them in the file ``mongodb.properties``."""
    (folder / "secrets").mkdir()
    for name, secret in secrets.items():
        (folder / "secrets" / name).write_text(secret, encoding="utf-8")
    lines = "".join(f"{name}={secret}\n" for name, secret in secrets.items())
    (folder / "secrets" / "mongodb.properties").write_text(lines, encoding="utf-8")
