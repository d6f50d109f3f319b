"""Django's admin is for reading, for all of the staff: nothing there proves an address, or tells a secret."""

from __future__ import annotations

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.contrib import admin
from django.test import Client

from tenants.admin import ReadOnlyAdmin
from tenants.models import User
from tenants.roles import AUDITOR
from tests.tenants.builders import client_of, make_person, make_staff

pytestmark = pytest.mark.django_db


@pytest.fixture
def auditor() -> Client:
    return client_of(make_staff(AUDITOR).user)


def test_every_page_is_read_only_also_of_what_other_apps_keep() -> None:
    assert [model for model, page in admin.site._registry.items() if not isinstance(page, ReadOnlyAdmin)] == []


def test_nobody_proves_an_address(auditor: Client) -> None:
    """With an address that counts as proved one accepts an invitation to it."""
    row = EmailAddress.objects.create(user=make_person(), email="owner@lumen.example", verified=False)
    body = {"action": "make_verified", "_selected_action": row.pk}
    auditor.post("/admin/account/emailaddress/", body)
    row.refresh_from_db()
    assert not row.verified


def test_secret_of_a_second_factor_is_not_shown(auditor: Client) -> None:
    secret = generate_totp_secret()
    factor: Authenticator = TOTP.activate(make_person(), secret).instance
    for place in ("", f"{factor.pk}/change/"):
        page = auditor.get(f"/admin/mfa/authenticator/{place}")
        assert page.status_code == 200
        assert secret not in page.content.decode()


def test_what_is_not_shown_is_no_filter_either(auditor: Client) -> None:
    """Whoever sees whether a row is left learns it letter by letter."""
    person = make_person()
    TOTP.activate(person, generate_totp_secret())
    password = User.objects.get(pk=person.pk).password
    for place, query in (
        ("mfa/authenticator", {"data__secret__gte": "A"}),
        ("tenants/user", {"password__startswith": password[:40]}),
        ("tenants/user", {"password": password}),
        ("scheduling/programversion", {"document__script__contains": "key"}),
        ("scheduling/jobdescription", {"said__script__contains": "key"}),
    ):
        assert auditor.get(f"/admin/{place}/", query).status_code == 400, query
    assert auditor.get("/admin/tenants/user/", {"email": person.email}).status_code == 200
