"""The operator's page of secrets: their names and the tenants that they are for, never a value."""

from __future__ import annotations

from django import forms
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from scheduling.catalogue.secrets import secret_remove, secret_set, secrets_listed
from scheduling.programs.catalogue import LONGEST_WORD
from tenants.access import AccessRequest, Refused
from tenants.roles import Permission
from tenants.services.members import REASON_LONGEST
from tenants.views.gate import posted_from, requires, tell


class SecretForm(forms.Form):
    name = forms.CharField(
        label="Name", max_length=40, help_text="As programs name it: a letter a-z, then a-z, 0-9 and -."
    )
    value = forms.CharField(
        label="Value",
        max_length=LONGEST_WORD,
        strip=False,
        help_text="It is not shown again, to nobody.",
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
    )
    tenants = forms.CharField(
        label="For these tenants",
        required=False,
        max_length=1_000,
        help_text="Short names, with commas between them. Empty: for all.",
    )
    reason = forms.CharField(label="Why?", max_length=REASON_LONGEST)


@never_cache
@require_http_methods(["GET", "POST"])
@requires(Permission.PROGRAMS_OFFER)
def operator_secrets(request: AccessRequest) -> HttpResponseBase:
    form = SecretForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        tenants = [slug.strip() for slug in form.cleaned_data["tenants"].split(",") if slug.strip()]
        outcome = secret_set(
            name=form.cleaned_data["name"],
            value=form.cleaned_data["value"],
            tenants=tenants or None,
            by=request.access,
            at=timezone.now(),
            reason=form.cleaned_data["reason"],
        )
        if not isinstance(outcome, Refused):
            tell(request, outcome, f"{outcome.name} is set.")
            return redirect("operator_secrets")
        form.add_error({"unknown_tenant": "tenants", "invalid_secret": "name"}.get(outcome.code), outcome.sentence)
    return render(request, "catalogue/operator_secrets.html", {"form": form, "secrets": secrets_listed()})


@posted_from("operator_secrets")
@requires(Permission.PROGRAMS_OFFER)
def operator_secret_remove(request: AccessRequest, name: str) -> HttpResponseBase:
    outcome = secret_remove(name=name, by=request.access, at=timezone.now(), reason=request.POST.get("reason", ""))
    tell(request, outcome, f"{name} is removed.")
    return redirect("operator_secrets")
