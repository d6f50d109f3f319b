"""Notices in a chat tool: at least once, never to whoever may not know, by the rules of webhooks, and the address a
secret."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection, connections
from django.test import Client
from pytest_django.fixtures import Settings

from scheduling.app.tasks import notice_chats_tick
from scheduling.feed.kinds import EventKind
from scheduling.models import ChatAddress, MailWay, Notice, NoticeChoice
from scheduling.notices.choices import choices_set
from scheduling.notices.collecting import notices_collect
from scheduling.notices.kinds import NoticeKind
from scheduling.notices.read_choices import Ways
from scheduling.webhooks import chats
from scheduling.webhooks.addresses import PRIVATE
from scheduling.webhooks.calls import CallOutcome
from scheduling.webhooks.chats import (
    ChatLetter,
    chat_remove,
    chat_secrets_carry,
    chat_set,
    chat_switch,
    document_of,
    shown_of,
)
from scheduling.webhooks.receivers import FAILING_TOO_LONG, LEASE, LONGEST_PAUSE, MOST_FAILURES
from scheduling.webhooks.rounds import chats_round
from tenants.access import Refused
from tenants.common.stored_secrets import reveal
from tenants.models import Membership, Tenant, User
from tenants.roles import OWNER
from tenants.scoping import scope
from tests.notices.test_notices import job_of, lines, member, tell
from tests.operator.test_cell_races import wait_until_done_or_waiting
from tests.patience import PATIENCE
from tests.scheduling.pages import client_of, text_of
from tests.tenants.builders import NOW, done, make_member, make_tenant
from tests.webhooks.hooks import BROKE, TOOK, elsewhere, lock
from tests.webhooks.test_webhook_calls import says, server

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("committed")]

SECRET = "T024F4ZL/B08A/x9s8d7f6g5h4"
URL = f"https://93.184.216.34/services/{SECRET}"
OTHER = "https://93.184.216.34/hooks/another-secret-of-some-length"
CHAT = Ways(bell=False, toast=False, chat=True)


class Chat:
    """Takes messages in place of the tool; answers as told, and in the end that it took them."""

    def __init__(self, *answers: CallOutcome) -> None:
        self.letters: list[ChatLetter] = []
        self._answers = list(answers)

    def __call__(self, letter: ChatLetter) -> CallOutcome:
        self.letters.append(letter)
        return self._answers.pop(0) if self._answers else TOOK

    @property
    def texts(self) -> list[str]:
        return [json.loads(letter.body)["text"] for letter in self.letters]


def go(chat: Chat, at: datetime = NOW) -> int:
    return chats_round(clock=lambda: at, draw=lambda: 0.0, post=chat)


def address_of(person: User) -> ChatAddress:
    return ChatAddress.objects.get(person=person)


def wanting(*kinds: NoticeKind, tenant: Tenant | None = None) -> tuple[Tenant, User]:
    """An owner who is told of these kinds in chat, where the greeting was said already."""
    tenant = tenant or make_tenant(name="Lumen")
    person = member(tenant, OWNER)
    done(chat_set(person=person, url=URL, form="text", at=NOW))
    choices_set(person=person, ways=dict.fromkeys(kinds or (NoticeKind.LOW_BALANCE,), CHAT), all_jobs=False)
    go(Chat())
    return tenant, person


def low(tenant: Tenant, times: int = 1, at: datetime = NOW) -> None:
    for _ in range(times):
        tell(tenant, EventKind.LOW_BALANCE, available=5_000_000, slots_left=2)
    notices_collect(at=at)


def test_an_address_is_greeted_once_and_told_what_its_person_ticked() -> None:
    tenant = make_tenant(name="Lumen")
    person, other = member(tenant, OWNER), member(tenant, OWNER)
    done(chat_set(person=person, url=URL, form="text", at=NOW))
    choices_set(person=person, ways={NoticeKind.LOW_BALANCE: CHAT}, all_jobs=False)
    choices_set(person=other, ways={NoticeKind.LOW_BALANCE: CHAT}, all_jobs=False)  # and has no address
    chat = Chat()
    assert (go(chat), go(chat)) == (1, 0)
    assert "from now on" in chat.texts[0]
    assert (chat.letters[0].url, chat.letters[0].headers["Content-Type"]) == (URL, "application/json")
    low(tenant)
    tell(tenant, EventKind.BUDGET_PASSED)  # not ticked
    notices_collect(at=NOW)
    assert (go(chat), go(chat)) == (1, 0)
    assert chat.texts[1] == (
        f"{NOW:%d %b %H:%M} (Lumen)  Low balance. 5.00 credits last 2 slots.\n"
        f"{settings.PUBLIC_URL}/t/{tenant.slug}/ledger/"
    )
    assert lines(person)[0].kind is NoticeKind.BUDGET  # low balances are said in chat alone
    assert address_of(person).said_at == NOW


def test_what_is_due_is_one_message_that_says_how_much_more_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    tenant, _ = wanting()
    monkeypatch.setattr(chats, "MOST_LINES", 2)
    low(tenant, 5)
    chat = Chat()
    assert go(chat) == 1
    assert chat.texts[0].count("Low balance.") == 2
    assert chat.texts[0].endswith(f"And 3 more: {settings.PUBLIC_URL}/notices/")
    assert not Notice.objects.filter(chat_due_at__isnull=False).exists()


def test_whoever_left_meanwhile_is_told_nothing() -> None:
    former, stays = make_tenant(name="Left"), make_tenant(name="Stays")
    _, person = wanting(tenant=former)
    make_member(stays, OWNER, person)
    low(former)
    low(stays)
    with scope(former):
        Membership.objects.filter(user=person).delete()
    chat = Chat()
    assert go(chat) == 1
    assert "Stays" in chat.texts[0]
    assert "Left" not in chat.texts[0]
    with scope(stays):
        Membership.objects.filter(user=person).delete()
    low(stays)
    assert go(chat) == 0


def test_names_that_others_gave_call_nobody_in_the_channel() -> None:
    tenant, person = wanting(NoticeKind.ENDED)
    job = job_of(tenant, person, "<!channel> & @all")
    tell(tenant, EventKind.JOB_FINISHED, f"job:{job.pk}")
    notices_collect(at=NOW)
    chat = Chat()
    go(chat)
    assert "&lt;!channel&gt; &amp; @\N{ZERO WIDTH SPACE}all is done." in chat.texts[0]


def test_teams_takes_a_card() -> None:
    document = document_of("card", ["One @all.", "Two."])
    (attachment,) = document["attachments"]
    assert (document["type"], attachment["contentType"]) == ("message", "application/vnd.microsoft.card.adaptive")
    card = attachment["content"]
    assert (card["type"], [block["type"] for block in card["body"]]) == ("AdaptiveCard", ["TextBlock"] * 2)
    assert [block["text"] for block in card["body"]] == ["One @\N{ZERO WIDTH SPACE}all.", "Two."]


def test_an_address_of_ones_own_network_is_refused_as_that_of_a_webhook_is() -> None:
    person = member(make_tenant(), OWNER)
    for url in ("https://127.0.0.1/x", "https://10.1.2.3/x", "https://169.254.169.254/latest"):
        outcome = chat_set(person=person, url=url, form="text", at=NOW)
        assert (outcome.code, outcome.sentence) == ("webhook_address_private", PRIVATE)
    for url in ("http://93.184.216.34/x", "https://93.184.216.34:8080/x", "ftp://x", ""):
        assert chat_set(person=person, url=url, form="text", at=NOW).code == "invalid_webhook_url"
    assert chat_set(person=person, url=URL, form="pigeon", at=NOW).code == "invalid_chat_form"
    assert not ChatAddress.objects.exists()


def test_an_address_whose_name_leads_home_by_now_is_not_called() -> None:
    """The call looks again at the very address that it connects to; nothing but that guard stands between."""
    _, person = wanting()
    name = "https://localhost/services/" + SECRET
    ChatAddress.objects.filter(person=person).update(secret=chats.store(name), said_at=None)
    assert chats_round(clock=lambda: NOW, draw=lambda: 0.0) == 1
    row = address_of(person)
    assert (row.flaw, row.failures) == (PRIVATE, 1)


def test_what_is_not_taken_is_tried_again_later_and_not_for_ever() -> None:
    tenant, person = wanting()
    low(tenant)
    at, tries = NOW, 0
    for _ in range(3 * MOST_FAILURES):
        tries += go(Chat(BROKE), at)
        if not ChatAddress.objects.filter(person=person, active=True).exists():
            break
        at += LONGEST_PAUSE
    assert tries == MOST_FAILURES
    assert not Notice.objects.filter(chat_due_at__isnull=False).exists()
    row = address_of(person)
    assert (row.failures, row.flaw, row.active) == (MOST_FAILURES, BROKE.flaw, True)
    low(tenant, at=at)
    assert go(Chat(), at) == 1
    row = address_of(person)
    assert (row.failures, row.failing_since, row.flaw, row.said_at) == (0, None, "", at)


def test_a_pause_follows_a_failure() -> None:
    tenant, _ = wanting()
    low(tenant)
    chat = Chat(BROKE)
    assert [go(chat, NOW + timedelta(seconds=second)) for second in (0, 4, 5)] == [1, 0, 1]


def test_an_address_that_takes_nothing_for_three_days_is_switched_off_and_says_so() -> None:
    tenant, person = wanting()
    for at in moments():
        low(tenant, at=at)
        go(Chat(BROKE), at)
    row = address_of(person)
    assert (row.active, row.switched_off_at) == (False, NOW + FAILING_TOO_LONG)
    page = text_of(client_of(person).get("/notices/choices/").content.decode())
    assert "It took nothing for three days, so it is switched off" in page
    assert BROKE.flaw in page
    before = Notice.objects.count()
    low(tenant)
    assert Notice.objects.count() == before  # in chat alone, and that is off
    done(chat_switch(person=person, active=True))
    low(tenant)
    chat = Chat()
    go(chat)
    assert chat.texts[0].count("Low balance.") == 1  # what came meanwhile is not told later


def moments() -> Iterator[datetime]:
    step = timedelta(hours=12)
    yield from (NOW + number * step for number in range(FAILING_TOO_LONG // step + 1))


def test_an_end_before_the_mark_says_it_again_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tenant, _ = wanting()
    low(tenant)
    chat = Chat()
    with monkeypatch.context() as dies:
        dies.setattr(chats, "chat_end", _dies)
        with pytest.raises(_Death):
            go(chat)
    assert go(chat) == 0  # its claim still stands
    assert (go(chat, NOW + LEASE), go(chat, NOW + LEASE)) == (1, 0)
    assert len(set(chat.texts)) == 1
    assert len(chat.texts) == 2


class _Death(Exception):
    pass


def _dies(**_: object) -> None:
    raise _Death


def test_an_answer_of_an_address_before_changes_nothing_of_the_next_one() -> None:
    tenant, person = wanting()
    low(tenant)
    (letter,) = chats.chats_begin(at=NOW)
    done(chat_set(person=person, url=OTHER, form="text", at=NOW))
    chats.chat_end(letter=letter, outcome=BROKE, at=NOW, draw=0.0)
    row = address_of(person)
    assert (row.failures, row.flaw, reveal(row.secret)) == (0, "", OTHER)
    assert not Notice.objects.filter(chat_due_at__isnull=False).exists()
    assert chat_remove(person=person) is None
    chats.chat_end(letter=letter, outcome=TOOK, at=NOW, draw=0.0)
    assert not ChatAddress.objects.exists()


CHANGES: dict[str, Callable[[User], object]] = {
    "set": lambda person: chat_set(person=person, url=OTHER, form="text", at=NOW),
    "off": lambda person: chat_switch(person=person, active=False),
    "remove": lambda person: chat_remove(person=person),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_of_an_address_and_an_answer_from_there_do_not_wait_for_each_other(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer comes in another transaction, after the change has taken the person's notices. If it took the address
    then, each would have what the other needs."""
    tenant, person = wanting()
    low(tenant)
    (letter,) = chats.chats_begin(at=NOW)
    forget, ends = chats._forget_due, []
    second = connection.copy()

    def answer() -> bool:
        second.inc_thread_sharing()
        with monkeypatch.context() as of_thread:
            of_thread.setattr(connections._connections, "default", second, raising=False)
            return chats.chat_end(letter=letter, outcome=BROKE, at=NOW, draw=0.0)

    def forget_and_answer(whose: User) -> None:
        forget(whose)
        ends.append(threads.submit(answer))
        assert second.connection is not None
        wait_until_done_or_waiting(ends[0], second.connection.info.backend_pid)

    monkeypatch.setattr(chats, "_forget_due", forget_and_answer)
    with closing(second), ThreadPoolExecutor(1) as threads:
        second.ensure_connection()
        outcome = CHANGES[change](person)
        assert ends[0].result(PATIENCE) is False  # nothing is recorded, and nobody waited
    assert not isinstance(outcome, Refused)
    assert not Notice.objects.filter(chat_due_at__isnull=False).exists()


@pytest.mark.django_db(transaction=True)
def test_address_that_is_being_changed_holds_up_no_other() -> None:
    (tenant, person), (castor, _) = wanting(), wanting(tenant=make_tenant("castor"))
    low(tenant)
    low(castor)
    row = address_of(person)
    with elsewhere() as other:

        def post(letter: ChatLetter) -> CallOutcome:
            if letter.person_id == person.pk:
                lock(other, row)
            return TOOK

        assert chats_round(clock=lambda: NOW, draw=lambda: 0.0, post=post) == 2
        assert set(Notice.objects.filter(chat_due_at__isnull=False).values_list("person", flat=True)) == {person.pk}
    chat = Chat()
    assert (go(chat), go(chat, NOW + LEASE)) == (0, 1)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (URL, "93.184.216.34/…g5h4"),
        ("https://prod-1.example.com/workflows?sig=0123456789abcdef", "prod-1.example.com/…cdef"),
        ("https://chat.example/short", "chat.example/…"),
    ],
)
def test_of_an_address_its_host_and_its_last_letters_are_shown(url: str, words: str) -> None:
    assert shown_of(url) == words


def test_a_saved_address_is_never_shown_again_and_no_copy_of_the_database_has_it() -> None:
    _, person = wanting()
    for path in ("/notices/choices/", "/notices/", "/notices/guide/"):
        page = client_of(person).get(path).content.decode()
        assert SECRET not in page
        assert SECRET[:8] not in page
    with connection.cursor() as cursor:
        cursor.execute("SELECT row_to_json(one)::text FROM scheduling_chataddress AS one")
        (stored,) = cursor.fetchone()
    assert SECRET not in stored
    assert reveal(address_of(person).secret) == URL


def test_addresses_are_stored_anew_after_a_change_of_the_key(settings: Settings) -> None:
    _, person = wanting()
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key, of the same length or so"
    assert chat_secrets_carry().carried == 1
    settings.SECRET_KEY_FALLBACKS = []
    assert reveal(address_of(person).secret) == URL


def test_the_page_saves_switches_and_removes_and_another_persons_stays() -> None:
    _, other = wanting()
    person = member(make_tenant(), OWNER)
    client = client_of(person)
    assert "disabled" in client.get("/notices/choices/").content.decode()
    for form in ({}, {"press": "fly"}, {"press": "save", "url": "https://10.0.0.1/x", "form": "text"}, {"press": "on"}):
        assert client.post("/notices/chat/", form)["Location"] == "/notices/choices/"
    assert not ChatAddress.objects.filter(person=person).exists()
    client.post("/notices/chat/", {"press": "save", "url": f" {URL} ", "form": "card"})
    page = client.get("/notices/choices/").content.decode()
    assert "Microsoft Teams" in text_of(page)
    assert 'name="ended.chat"' in page
    client.post("/notices/choices/", {"ended.chat": "on", "failed.mail": MailWay.NOW})
    assert NoticeChoice.objects.get(person=person, kind="ended").chat
    assert not NoticeChoice.objects.get(person=person, kind="failed").chat
    client.post("/notices/chat/", {"press": "off"})
    assert not address_of(person).active
    client.post("/notices/chat/", {"press": "on"})
    assert address_of(person).active
    client.post("/notices/chat/", {"press": "remove"})
    assert list(ChatAddress.objects.values_list("person", flat=True)) == [other.pk]


def test_the_address_of_the_form_leads_back_and_is_for_persons_alone() -> None:
    _, person = wanting()
    assert client_of(person).get("/notices/chat/")["Location"] == "/notices/choices/"
    assert "/login/" in Client().post("/notices/chat/", {"press": "remove"})["Location"]
    assert ChatAddress.objects.exists()


def test_the_guide_and_the_page_say_every_kind() -> None:
    guide = Path(settings.BASE_DIR, "docs", "guide", "notices.md").read_text(encoding="utf-8")
    page = text_of(client_of(member(make_tenant(), OWNER)).get("/notices/guide/").content.decode())
    rows = [f"| {kind.label} | {kind.help} | {'rings' if kind.rings else 'is silent'} |" for kind in NoticeKind]
    assert [
        line for line in guide.splitlines() if line.startswith("| ") and line.endswith(("rings |", "is silent |"))
    ] == rows
    for kind in NoticeKind:
        assert f"{kind.label} {kind.help}" in page


@pytest.mark.django_db(transaction=True)
def test_the_task_tells_a_real_receiver(settings: Settings) -> None:
    settings.WEBHOOKS_ALLOW_PRIVATE, settings.WEBHOOKS_PORTS = True, None
    person = member(make_tenant(), OWNER)
    with server(says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")) as (url, came):
        done(chat_set(person=person, url=url, form="text", at=NOW))
        notice_chats_tick()
    head, _, body = came[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /hook?a=1 HTTP/1.1")
    assert "from now on" in json.loads(body)["text"]
    row = address_of(person)
    assert (row.flaw, row.failures) == ("", 0)
    assert row.said_at is not None
