"""How a process dies in the middle of its work: before a transaction of its commits, or right after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from django.db import transaction


class Died(BaseException):
    """The process is gone. Nobody who works for the market may catch it."""


def dying(work: Callable[[], Any], transactions: int, *, committed: bool) -> bool:
    """Do the work in a process that dies over its `transactions`-th transaction, counted from 0.

    `committed`: right after that transaction has committed, so that its answer is lost; else before, so that it is
    undone. False: the work has fewer transactions, and was done. The world lives in one transaction that is undone in
    the end; what is a transaction to the market is a savepoint here, also where it asks for none within another one.
    The outermost of them are counted.
    """
    depth, ended, savepoints = 0, 0, list[bool]()
    enter, leave = transaction.Atomic.__enter__, transaction.Atomic.__exit__

    def entered(self: transaction.Atomic) -> None:
        nonlocal depth
        savepoints.append(self.savepoint)
        self.savepoint = self.savepoint or depth == 0
        enter(self)
        depth += 1

    def leaving(self: transaction.Atomic, kind: Any, error: Any, trace: Any) -> None:
        nonlocal depth, ended
        depth -= 1
        self.savepoint = savepoints.pop()
        last = depth == 0 and kind is None and ended == transactions
        ended += depth == 0
        if last and not committed:
            death = Died()
            leave(self, Died, death, None)
            raise death
        leave(self, kind, error, trace)
        if last:
            raise Died

    with patch.object(transaction.Atomic, "__enter__", entered), patch.object(transaction.Atomic, "__exit__", leaving):
        try:
            work()
        except Died:
            return True
    return False
