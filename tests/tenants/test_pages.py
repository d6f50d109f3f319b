"""The pages as a browser gets them."""

from __future__ import annotations

import csv
import io
import re
from datetime import UTC, datetime
from html import unescape
from pathlib import Path

import pytest
from django import forms
from django.core.management import CommandError, call_command
from django.db import transaction
from django.template import Context, Template
from django.test import Client, RequestFactory
from django.views.defaults import server_error

from tenants import history
from tenants.access import Access
from tenants.models import AuditEntry, User
from tenants.roles import AUDITOR, OPERATOR, OWNER, VIEWER
from tenants.selectors import staff_roles, user_tenants
from tenants.templatetags.look import amount, credits, fact
from tests.tenants.builders import client_of, make_member, make_person, make_staff, make_tenant

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
ACCOUNT_PAGES = [
    "/accounts/email/",
    "/accounts/password/change/",
    "/accounts/2fa/",
]
STRANGER_PAGES = ["/", "/accounts/login/", "/accounts/password/reset/", "/accounts/signup/", "/accounts/logout/"]


def assert_keeps_the_policy(response) -> None:
    """What the browser is told to refuse, the page does not contain."""
    policy = response["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy or "default-src 'self'" in policy
    html = response.content.decode()
    assert not re.search(r"<[^>]+\sstyle=", html)
    assert not re.search(r"<[^>]+\son[a-z]+=", html)
    assert "<style" not in html
    for attributes, body in re.findall(r"<script([^>]*)>(.*?)</script>", html, re.DOTALL):
        assert ("src=" in attributes and not body.strip()) or 'type="application/json"' in attributes


@pytest.mark.parametrize("path", STRANGER_PAGES)
def test_stranger_reads_public_page_under_the_policy(path: str) -> None:
    response = Client().get(path, follow=True)
    assert response.status_code == 200
    assert_keeps_the_policy(response)


def test_what_somebody_with_a_session_reads_is_kept_by_nobody_on_the_way() -> None:
    lumen = make_tenant("lumen-lab")
    client = client_of(make_member(lumen, OWNER).user)
    for path in (f"/t/{lumen.slug}/members/", *ACCOUNT_PAGES):
        assert "private" in client.get(path)["Cache-Control"], path


@pytest.mark.parametrize("path", ["/nowhere/", "/accounts/login/"])
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="a"; filename="b"\r\n'
         b"Content-Transfer-Encoding: base64\r\n\r\n!!!\r\n--x--\r\n"),
        ("application/x-www-form-urlencoded; charset=utf-16", b"a=1"),
        ("application/x-www-form-urlencoded", b"a=1&" * 2_000),
        ("application/x-www-form-urlencoded", b"reason=a%00b"),
        ("application/x-www-form-urlencoded", b"reas%00on=a"),
    ],
)  # fmt: skip
def test_form_that_cannot_be_read_is_refused_at_every_address(path: str, kind: str, body: bytes) -> None:
    client = Client(raise_request_exception=False)
    response = client.generic("POST", path, body, content_type=kind)
    assert (response.status_code, response["Content-Type"]) == (400, "text/html; charset=utf-8")
    assert_keeps_the_policy(response)


@pytest.mark.parametrize("path", ACCOUNT_PAGES)
def test_person_reads_account_page_under_the_policy(path: str) -> None:
    response = client_of(make_person()).get(path, follow=True)
    assert response.status_code == 200
    assert_keeps_the_policy(response)


@pytest.mark.parametrize("path", ["market/", "members/", "history/"])
def test_owner_reads_tenant_page_under_the_policy(path: str) -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    response = client_of(owner.user).get(f"/t/lumen/{path}")
    assert response.status_code == 200
    assert_keeps_the_policy(response)


@pytest.mark.parametrize("path", ["/overview/", "/mine/", "/tenants/", "/staff/", "/claims/", "/history/"])
@pytest.mark.parametrize("role", [AUDITOR, OPERATOR])
def test_staff_read_page_over_all_tenants_under_the_policy(path: str, role: str) -> None:
    make_tenant("lumen", "Lumen Lab")
    response = client_of(make_staff(role).user).get(path)
    assert response.status_code == 200
    assert_keeps_the_policy(response)


def test_member_of_one_tenant_arrives_there() -> None:
    member = make_member(make_tenant("lumen"), VIEWER)
    response = client_of(member.user).get("/")
    assert (response.status_code, response["Location"]) == (302, "/t/lumen/")


def test_member_of_two_tenants_chooses_and_the_switcher_shows_both() -> None:
    person = make_person()
    make_member(make_tenant("lumen", "Lumen Lab"), VIEWER, person)
    make_member(make_tenant("delta", "Delta Group"), OWNER, person)
    client = client_of(person)
    for path in ("/", "/t/lumen/members/"):
        html = client.get(path).content.decode()
        assert 'href="/t/lumen/"' in html
        assert 'href="/t/delta/"' in html


def test_stranger_is_sent_to_the_log_in_and_back() -> None:
    make_tenant("lumen")
    response = Client().get("/t/lumen/members/?a=1")
    assert response.status_code == 302
    assert response["Location"] == "/accounts/login/?next=/t/lumen/members/%3Fa%3D1"


def test_unknown_page_is_told_in_our_look(settings) -> None:
    settings.DEBUG = False
    response = Client().get("/nowhere/")
    assert response.status_code == 404
    assert "There is nothing here" in response.content.decode()


def test_failing_page_is_told_without_asking_the_database(django_assert_num_queries, rf: RequestFactory) -> None:
    with django_assert_num_queries(0):
        response = server_error(rf.get("/"))
    assert response.status_code == 500
    assert "This page could not be built" in response.content.decode()


def test_form_without_its_token_is_told_in_our_look() -> None:
    member = make_member(make_tenant("lumen"), OWNER)
    client = Client(enforce_csrf_checks=True)
    client.force_login(member.user, backend="django.contrib.auth.backends.ModelBackend")
    response = client.post("/t/lumen/invitations/", {"email": "a@example.org", "role": VIEWER})
    assert response.status_code == 403
    assert "This form was too old" in response.content.decode()


TEMPLATES = sorted((Path(__file__).resolve().parents[2] / "templates").rglob("*.html"))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_template_has_no_inline_script_or_style(template: Path) -> None:
    """Pages that no test opens as well: the policy would silently drop what stands inline."""
    html = template.read_text(encoding="utf-8")
    assert not re.search(r"<[a-z][^>]*\sstyle\s*=", html)
    assert not re.search(r"<[a-z][^>]*\son[a-z]+\s*=\s*[\"']", html)
    assert "<style" not in html
    assert "javascript:" not in html
    assert all("src=" in attributes for attributes in re.findall(r"<script([^>]*)>", html))


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_number_of_a_job_beside_its_name_is_one_word(template: Path) -> None:
    """It would break at its hyphen where a table is narrow."""
    numbers = re.findall(r'<span class="([^"]*\bmono\b[^"]*)">[AJ]-{{', template.read_text(encoding="utf-8"))
    assert all("unbroken" in each.split() for each in numbers)


def test_what_a_person_typed_is_shown_and_not_run() -> None:
    tenant = make_tenant("lumen", "<script>alert(1)</script>")
    owner = make_member(tenant, OWNER, make_person(name="<img src=x onerror=alert(1)>"))
    for path in ("", "members/", "history/"):
        response = client_of(owner.user).get(f"/t/lumen/{path}")
        assert b"<script>alert" not in response.content
        assert_keeps_the_policy(response)


def test_history_is_read_in_pages_without_a_gap() -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    for number in range(60):
        member = make_member(owner.tenant, VIEWER, make_person(f"member{number}@example.org"))
    client, numbers, path = client_of(owner.user), [], "/t/lumen/history/"
    while path:
        html = client.get(path).content.decode()
        numbers += re.findall(r'class="faint">(\d+)</td>', html)
        older = re.search(r'href="(\?[^"]+)" rel="next"', html)
        path = f"/t/lumen/history/{unescape(older[1])}" if older else ""
    expected = AuditEntry.objects.filter(tenant=member.tenant).order_by("-sequence").values_list("sequence", flat=True)
    assert [int(number) for number in numbers] == list(expected)


def test_history_is_filtered_by_what_was_done_by_whom_and_about_what() -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    make_member(owner.tenant, VIEWER, make_person("kim@example.org", "Kim"))
    client = client_of(owner.user)

    def subjects(**query: str) -> set[str]:
        rows = exported(client, "/t/lumen/history/", **query)
        html = client.get("/t/lumen/history/", query).content.decode()
        assert {row["number"] for row in rows} == set(re.findall(r'class="faint">(\d+)</td>', html))
        return {row["subject"] for row in rows}

    everything = subjects()
    assert len(everything) > 2
    assert subjects(action="member add", subject="kim@") == {name for name in everything if "kim@" in name} != set()
    assert subjects(person="nobody of this name") == set()
    assert subjects(subject="x" * 121) == everything  # no question at all


def exported(client: Client, path: str, **query: str) -> list[dict[str, str]]:
    response = client.get(path, {"format": "csv"} | query)
    assert (response.status_code, response["Content-Type"]) == (200, "text/csv; charset=utf-8")
    assert response.streaming
    return list(csv.DictReader(io.StringIO(b"".join(response.streaming_content).decode())))


def test_history_is_exported_whole_with_its_fingerprints_and_only_the_tenants_own() -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    other = make_member(make_tenant("castor"), OWNER)
    staff = make_staff(AUDITOR).user
    with transaction.atomic():
        for number in range(3):
            for member in (owner, other):
                by = Access(user=member.user, tenant=member.tenant, roles=frozenset({OWNER}))
                history.append(
                    at=NOW,
                    by=by,
                    tenant=member.tenant,
                    action="server_drain",
                    subject=f"=thing {number}",
                    after={"a": 1},
                )
    own = exported(client_of(owner.user), "/t/lumen/history/")
    entries = AuditEntry.objects.filter(tenant=owner.tenant).order_by("-sequence")
    assert [row["fingerprint"] for row in own] == [entry.hash for entry in entries]
    assert (own[0]["subject"], own[0]["after"], own[0]["before"]) == ("'=thing 2", '{"a": 1}', "")
    everything = exported(client_of(staff), "/history/")
    assert len(everything) == AuditEntry.objects.count()
    assert {row["tenant"] for row in everything} >= {"lumen", "castor"}


def test_history_is_exported_to_nobody_who_may_not_read_its_page() -> None:
    viewer = make_member(make_tenant("lumen"), VIEWER)
    for path in ("/t/lumen/history/", "/history/"):
        assert client_of(viewer.user).get(path, {"format": "csv"}).status_code == 403


@pytest.mark.parametrize("before", ["x", "-1", "9" * 40, "²"])
def test_history_ignores_a_place_that_is_none(before: str) -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    assert client_of(owner.user).get("/t/lumen/history/", {"before": before}).status_code == 200


def test_member_page_asks_the_database_a_few_times_for_many_members(django_assert_max_num_queries) -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    for _ in range(20):
        make_member(owner.tenant, VIEWER)
    client = client_of(owner.user)
    with django_assert_max_num_queries(20):
        client.get("/t/lumen/members/")
    with django_assert_max_num_queries(14):
        client.get("/t/lumen/")


def test_two_digits_of_money_are_rounded_half_up() -> None:
    texts = [credits(micro) for micro in (0, 9_999, 16_167_439, 1_234_567_899_999, -10_000, -9_999)]
    assert texts == ["0.00", "0.01", "16.17", "1\u202f234\u202f567.90", "\u22120.01", "\u22120.01"]


def test_six_digits_of_money_are_all_shown() -> None:
    text = re.sub("<[^>]+>", "", amount(-1_234_567_890))
    assert text == "\u22121\u202f234.567890"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"names": ["a"]}, "You own <b>a</b>."),
        ({"names": ["a", "b"]}, "You own <b>a</b>, <b>b</b>."),
        ({"names": ["a"], "more": "2 < 3"}, "You own <b>a</b>; more of it: 2 &lt; 3."),
        ({"names": ["a , b"]}, "You own <b>a , b</b>."),
        ({"names": [".5 s"]}, "You own <b>.5 s</b>."),
    ],
)
def test_clauses_of_a_sentence_meet_as_they_are_read(values: dict[str, object], words: str) -> None:
    """One line for each tag puts no space before a punctuation mark, takes none away elsewhere, and escapes."""
    template = Template(
        """{% load look %}{% sentence %}
          You own
          {% for name in names %}
            {% if not forloop.first %},{% endif %}
            <b>{{ name }}</b>
          {% endfor %}
          {% if more %}
            ; more of it:
            {{ more }}
          {% endif %}
          .
        {% endsentence %}"""
    )
    assert re.sub(r"\s+", " ", template.render(Context(values))).strip() == words


@pytest.mark.parametrize(("path", "marked"), [("/", ["My tenants"]), ("/accounts/email/", ["E-mail addresses"])])
def test_navigation_marks_the_page_that_is_open(path: str, marked: list[str]) -> None:
    html = client_of(make_person()).get(path, follow=True).content.decode()
    links = re.findall(r'<a href="[^"]*"\s+aria-current="page"\s*>(.*?)</a>', html, re.DOTALL)
    assert {re.sub("<[^>]+>", "", link).strip() for link in links} == set(marked)


def test_first_operator_comes_from_the_console(capsys) -> None:
    call_command("staff_grant", "Ops@Bourse.example", OPERATOR, reason="first of all", name="Olga")
    assert "has an account now" in capsys.readouterr().out
    assert staff_roles(User.objects.get(email="ops@bourse.example")) == {OPERATOR}
    with pytest.raises(CommandError, match="operator already"):
        call_command("staff_grant", "ops@bourse.example", OPERATOR, reason="again")


def test_who_is_made_at_the_console_has_an_address_that_can_be_one() -> None:
    with pytest.raises(CommandError, match="not an e-mail address"):
        call_command("staff_grant", "ops", OPERATOR, reason="the address ends too early")
    assert not User.objects.exists()


@pytest.mark.parametrize("by_operator", [False, True])
def test_page_asks_before_a_member_is_removed(by_operator: bool) -> None:
    owner = make_member(make_tenant("lumen"), OWNER)
    member = make_member(owner.tenant, VIEWER, make_person("zoe@example.org", "Zoe"))
    browser = client_of(make_staff(OPERATOR).user if by_operator else owner.user)
    path = f"/t/lumen/members/{member.pk}/remove/"
    assert f'href="{path}"' in browser.get("/t/lumen/members/").content.decode()
    question = browser.get(path).content.decode()
    assert "Remove Zoe?" in question
    assert ("required" in question) == by_operator
    assert user_tenants(member.user), "only asked"
    browser.post(path, {"reason": "has moved"})
    assert not user_tenants(member.user)
    assert AuditEntry.objects.get(action="member_remove").reason == "has moved"
    assert browser.get(path).status_code == 404


def test_members_are_sorted_and_exported() -> None:
    owner = make_member(make_tenant("lumen"), OWNER, make_person("zoe@example.org", "Zoe"))
    make_member(owner.tenant, VIEWER, make_person("abe@example.org", "Abe"))
    client, path = client_of(owner.user), "/t/lumen/members/"
    assert [row["Name"] for row in exported(client, path)] == ["Abe", "Zoe"]
    assert [row["Role"] for row in exported(client, path, sort="-name")] == ["owner", "viewer"]
    html = client.get(path, {"sort": "-name"}).content.decode()
    heads = re.findall(r'<th scope="row">(.*?)</th>', html, re.DOTALL)
    assert "zoe@example.org" in heads[0]
    assert "abe@example.org" in heads[1]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        ("", "–"),
        (True, "yes"),
        (False, "no"),
        (0, "0"),
        ({"worker": 4, "lends": False, "limit": None}, "worker 4, lends no, limit –"),
        (["a", {"b": 1}], "a, b 1"),
        ({}, "–"),
    ],
)
def test_values_of_the_history_are_no_words_of_a_program(value: object, text: str) -> None:
    assert fact(value) == text


def test_a_page_that_is_not_for_ones_role_says_who_could_give_that_role() -> None:
    client = client_of(make_member(make_tenant("lumen"), VIEWER).user)
    for path, giver in (("/operator/pools/", "An operator"), ("/t/lumen/webhooks/", "An owner of the tenant")):
        answer = client.get(path, secure=True)
        assert answer.status_code == 403
        assert f". {giver} can give you such a role." in unescape(answer.content.decode())
        assert "can change your role" not in answer.content.decode()


def test_a_field_keeps_the_look_that_its_form_gives_it() -> None:
    class Code(forms.Form):
        text = forms.CharField(widget=forms.Textarea(attrs={"class": "input mono"}))
        name = forms.CharField()

    template = Template("{% load look %}{% field form.text %}{% field form.name %}")
    html = template.render(Context({"form": Code()}))
    assert re.findall(r'class="(input[^"]*)"', html) == ["input mono", "input"]
