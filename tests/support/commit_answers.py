"""A storage that does not answer a commit as it should."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.delta.transaction import Transaction


def answer_appends(patch: pytest.MonkeyPatch, error: Exception, *, landed: bool = True) -> None:
    """Commits of rows that are only written are made, if they have ``landed``, and answered by this ``error``."""
    commit = Transaction.commit_append

    def answered(transaction: Transaction, *given: Any) -> None:
        if landed:
            commit(transaction, *given)
        raise error

    patch.setattr(Transaction, "commit_append", answered)
