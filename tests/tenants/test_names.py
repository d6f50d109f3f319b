"""A name of which nothing can be seen, or that turns what stands around it, is refused, whoever asks and by whichever
door."""

from __future__ import annotations

import pytest

from tenants import services
from tenants.access import Refused
from tenants.names import UNPRINTABLE_NAME, in_printable, is_blank, name_flaw
from tenants.roles import OWNER
from tests.tenants.builders import NOW, SYSTEM, WHY, access, make_member, make_tenant

BLANKS = [
    "",
    " ",
    " \t ",
    "\u00a0",  # no-break space
    "\u200b",  # zero-width space
    "\u200d\u2060",  # joiners
    "\u202e",  # right to left from here on
    "\ufeff",
    "\u3164",  # Hangul filler: a letter, by its category
    "\u2800",  # a Braille pattern without dots
    "\u0301",  # an accent on nothing
    "\ufe0f",  # variation selector
    "\U000e0041",  # a tag
]


@pytest.mark.parametrize("text", BLANKS, ids=ascii)
def test_nothing_of_it_can_be_seen(text: str) -> None:
    assert is_blank(text)


@pytest.mark.parametrize("text", ["a", " a ", "0", "-", "é", "e\u0301", "名", "\N{SNOWMAN}", "\u200bx"], ids=ascii)
def test_something_of_it_can_be_seen(text: str) -> None:
    assert not is_blank(text)


UNSEEN = "\u3164 \u200b"


def code(outcome: object) -> str:
    assert isinstance(outcome, Refused), outcome
    return outcome.code


@pytest.mark.django_db
def test_nothing_of_a_tenant_bears_a_name_that_cannot_be_seen() -> None:
    by = access(make_member(make_tenant("lumen"), OWNER))
    assert code(services.tenant_create(slug="new", name=UNSEEN, by=SYSTEM, reason=WHY, at=NOW)) == "invalid_tenant"
    assert code(services.token_create(name=UNSEEN, scopes=["jobs:read"], by=by, at=NOW)) == "invalid_token_name"
    assert code(services.token_create(name=" ", scopes=["jobs:read"], by=by, at=NOW)) == "invalid_token_name"


@pytest.mark.django_db
@pytest.mark.parametrize("sign", ["\u202e", "\u2066", "\u200f", "\u200b", "\x1b", "\n"], ids=ascii)
def test_name_does_not_change_how_the_text_around_it_is_read(sign: str) -> None:
    name, new = f"Lumen{sign}baL", {"by": SYSTEM, "reason": WHY, "at": NOW}
    assert code(services.tenant_create(slug="new", name=name, **new)) == "invalid_tenant"
    assert code(services.person_create(email="a@x.example", name=name, password=None, **new)) == "invalid_person_name"
    assert name_flaw(name) == UNPRINTABLE_NAME
    assert in_printable(name) == ("Lumen baL" if sign == "\n" else "LumenbaL")


@pytest.mark.parametrize(
    "name",
    [
        "\u200cعلی",
        "علی\u200c",
        "علی\u200c رضا",
        "علی\u200c\u200cرضا",
        "محمد\u200cعلی",  # the letter before it joins no next one anyway, so that nobody would see it
        "علی\u200dرضا",
        "Lu\u200cmen",
        "क्\u200cष",
    ],
    ids=ascii,
)
def test_sign_between_letters_is_refused_where_it_cannot_be_seen(name: str) -> None:
    assert name_flaw(name) == UNPRINTABLE_NAME
    assert in_printable(name) == name.replace("\u200c", "").replace("\u200d", "")


@pytest.mark.django_db
@pytest.mark.parametrize(
    "name", ["Inés Åström", "李 明", "עדה", "أحمد", "علی\u200cرضا خانه\u200cای", "O'Neill-Ito", "Anne \N{SNOWMAN}"]
)
def test_name_may_be_in_any_script(name: str) -> None:
    assert services.tenant_create(slug="new", name=f" {name} ", by=SYSTEM, reason=WHY, at=NOW).name == name
    assert in_printable(name) == name


@pytest.mark.django_db
def test_person_has_a_name_that_can_be_seen_or_none() -> None:
    new = {"password": None, "by": SYSTEM, "reason": WHY, "at": NOW}
    assert code(services.person_create(email="a@x.example", name=UNSEEN, **new)) == "invalid_person_name"
    assert str(services.person_create(email="b@x.example", name="", **new)) == "b@x.example"


@pytest.mark.django_db
def test_reason_that_cannot_be_seen_is_none() -> None:
    assert code(services.tenant_create(slug="new", name="New", by=SYSTEM, reason=UNSEEN, at=NOW)) == "reason_missing"
