"""Which counters a try to log in uses.

Strangers are slowed by address and by account, so that many addresses are of little use to a guesser. People whom the
market knows have counters that strangers cannot move: people who are logged in and give their password again, and
people on a device from which this account has logged in before. For a person at an address from which the account has
logged in recently, only tries at that address count, not those of strangers elsewhere.
"""

from __future__ import annotations

import hashlib
import ipaddress
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from allauth.account.adapter import get_adapter
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from tenants.common.tries import (
    FORGET,
    KEEP,
    CannotCount,
    Pace,
    TryCounter,
    is_remembered,
    remember,
    tries_count,
    tries_forget,
    tries_succeed,
)
from tenants.devices import device_known
from tenants.models import User
from tenants.selectors import person_by_address

MINUTE, HOUR, DAY = 60, 3_600, 86_400
PASSWORD, CODE, MAIL = "password", "code", "mail"

OF_ACCOUNT = Pace(free=5, first=30, most=15 * MINUTE, memory=6 * HOUR)
OF_ADDRESS = Pace(free=20, first=30, most=15 * MINUTE, memory=HOUR)
OF_ONESELF = Pace(free=5, first=10, most=5 * MINUTE, memory=HOUR)
# Correct passwords cost the machine as much time as wrong ones.
LOG_INS = Pace(free=30, first=MINUTE, most=MINUTE, memory=MINUTE, window=True)
# Each mail to one mailbox is a nuisance to its owner.
MAILS_TO_ACCOUNT = Pace(free=3, first=MINUTE, most=HOUR, memory=6 * HOUR)
MAILS_FROM_ADDRESS = Pace(free=10, first=MINUTE, most=HOUR, memory=6 * HOUR)
MAILS_TO_ONESELF = Pace(free=3, first=MINUTE, most=15 * MINUTE, memory=HOUR)
ADDRESS_KNOWN_SECONDS = 30 * DAY

WAIT = "Too many tries. Wait {}, then try again"
NOT_COUNTED = "Nobody can log in for a moment. Try again in a minute."
log = logging.getLogger(__name__)

Who = TypeVar("Who", str, User)


def password_try(request: HttpRequest, login: str) -> Sequence[TryCounter]:
    """Count the try, or refuse it as a form does. The result goes to `right`."""
    return _counted(_password_counters, request, login, f"{WAIT}, or set a new password by mail.")


def code_try(request: HttpRequest, user: User) -> Sequence[TryCounter]:
    """Count a try of the second factor. A person who gets this far knows the password."""
    return _counted(_code_counters, request, user, f"{WAIT}.")


def mail_try(request: HttpRequest, login: str) -> None:
    """Count a mail for setting a new password. Every one counts, since there is nothing to get right or wrong."""
    _counted(_mail_counters, request, login, f"{WAIT}.")


def right(counters: Sequence[TryCounter]) -> None:
    """Tell the counters that the try was right."""
    with _as_far_as_redis_answers("a try that was right stays counted"):
        tries_succeed(counters)


def person_known(request: HttpRequest, user: User) -> None:
    """Note that this person has just proved who they are. The answer to this request also makes the device known."""
    request.known_device_of = user  # type: ignore[attr-defined]
    with _as_far_as_redis_answers("an address is not remembered"):
        remember(_place(_account(user, ""), _address(request)), seconds=ADDRESS_KNOWN_SECONDS)


def strangers_forget(user: User) -> None:
    """Forget the strangers' wrong tries of the old password, once a new one is set."""
    with _as_far_as_redis_answers("wrong passwords stay counted"):
        tries_forget([f"{PASSWORD}:account:{_account(user, '')}"])


def now() -> float:
    return time.time()


def _counted(
    counters_of: Callable[[HttpRequest, Who], Sequence[TryCounter]], request: HttpRequest, who: Who, sentence: str
) -> Sequence[TryCounter]:
    try:
        counters = counters_of(request, who)
        wait = tries_count(counters, at=now())
    except CannotCount:
        raise ValidationError(NOT_COUNTED, code="not_counted") from None
    if wait:
        raise ValidationError(sentence.format(_words(wait)), code="too_many_tries")
    return counters


@contextmanager
def _as_far_as_redis_answers(otherwise: str) -> Iterator[None]:
    """Go on if Redis does not answer, so that a person who has proved who they are is not turned away."""
    try:
        yield
    except CannotCount:
        log.warning("%s: Redis does not answer", otherwise)


def _words(seconds: int) -> str:
    return f"{seconds} second{'s' * (seconds != 1)}" if seconds <= 90 else f"{-(-seconds // MINUTE)} minutes"


def _password_counters(request: HttpRequest, login: str) -> Sequence[TryCounter]:
    user = person_by_address(login)
    account = _account(user, login)
    if user is not None and (oneself := _oneself(request, user)):
        return [
            TryCounter(f"{PASSWORD}:{oneself}", OF_ONESELF, FORGET),
            TryCounter(f"log-ins:account:{account}", LOG_INS, KEEP),
        ]
    address = _address(request)
    return [
        *_of_strangers(PASSWORD, account, address),
        TryCounter(f"log-ins:address:{address}", LOG_INS, KEEP),
    ]


def _code_counters(request: HttpRequest, user: User) -> Sequence[TryCounter]:
    if oneself := _oneself(request, user):
        return [TryCounter(f"{CODE}:{oneself}", OF_ONESELF, FORGET)]
    return _of_strangers(CODE, _account(user, ""), _address(request))


def _mail_counters(request: HttpRequest, login: str) -> Sequence[TryCounter]:
    user = person_by_address(login)
    if user is not None and (oneself := _oneself(request, user)):
        return [TryCounter(f"{MAIL}:{oneself}", MAILS_TO_ONESELF, KEEP)]
    return [
        TryCounter(f"{MAIL}:account:{_account(user, login)}", MAILS_TO_ACCOUNT, KEEP),
        TryCounter(f"{MAIL}:address:{_address(request)}", MAILS_FROM_ADDRESS, KEEP),
    ]


def _of_strangers(what: str, account: str, address: str) -> list[TryCounter]:
    place = _place(account, address)
    target = place if is_remembered(place) else f"account:{account}"
    return [TryCounter(f"{what}:address:{address}", OF_ADDRESS), TryCounter(f"{what}:{target}", OF_ACCOUNT)]


def _oneself(request: HttpRequest, user: User) -> str:
    """Return the name of the counter of a known person, or an empty text for a stranger."""
    if request.user.is_authenticated and request.user.pk == user.pk:
        return f"person:{user.pk}"
    device = device_known(request, user)
    return f"device:{user.pk}:{device}" if device else ""


def _account(user: User | None, login: str) -> str:
    """Return the account's name in counters. An address without an account is counted like one with an account, so that
    nobody learns which addresses have one."""
    return str(user.pk) if user else hashlib.sha256(login.strip().lower().encode()).hexdigest()


def _place(account: str, address: str) -> str:
    return f"place:{account}:{address}"


def _address(request: HttpRequest) -> str:
    """Return the client's address; for IPv6 its /64 network, since a household has 2^64 addresses."""
    address = ipaddress.ip_address(get_adapter().get_client_ip(request))
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.IPv6Network((address, 64), strict=False))
    return str(getattr(address, "ipv4_mapped", None) or address)
