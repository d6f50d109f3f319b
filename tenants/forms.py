"""The forms about people and tenants. Forms check the shape of what is typed; services decide."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from allauth.account.forms import (
    AddEmailForm,
    ChangePasswordForm,
    LoginForm,
    ResetPasswordForm,
    ResetPasswordKeyForm,
    SetPasswordForm,
    SignupForm,
)
from allauth.core import context
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from django import forms
from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from tenants.adapters import invitation_of
from tenants.claims import CLAIM_LONGEST, VALUE_LONGEST
from tenants.log_in_limits import code_try, mail_try, right
from tenants.models import AuditEntry, Tenant, User
from tenants.names import name_flaw
from tenants.roles import STAFF_ROLES, SUBMITTER, TENANT_ROLES, VIEWER, ScopePreset
from tenants.selectors import owner_of_address

ADDRESS = "E-mail address"
TRIAL_LONGEST = 20_000  # characters of pasted claims
OWN_CHOICE = "own"  # a choice of scopes without a preset
ROLE_CHOICES = [(role, role.capitalize()) for role in TENANT_ROLES]


class InvitedSignupForm(SignupForm):  # type: ignore[misc]
    """The form to sign up with an invitation: the address is the invited one and cannot be another."""

    name = forms.CharField(max_length=120, widget=forms.TextInput(attrs={"autocomplete": "name"}))
    field_order = ["name", "email", "password1", "password2"]

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if flaw := name_flaw(name):
            raise forms.ValidationError(flaw)
        return name

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].label = ADDRESS
        invitation = invitation_of(context.request)
        if invitation:
            # A disabled field takes its initial value and ignores what the browser sends.
            self.fields["email"].disabled = True
            self.initial["email"] = invitation.email
            self.fields["email"].help_text = "The address that was invited."

    def validate_unique_email(self, value: str) -> str:
        """Note whether the address is somebody's already: the visitor is told by mail, as one who has an account."""
        self.account_already_exists = owner_of_address(value) is not None
        return value

    def try_save(self, request: HttpRequest) -> tuple[User | None, HttpResponse | None]:
        """Make the account. Where somebody else has got one with this address since the form was checked, the visitor
        is answered as if the form were checked only now."""
        try:
            with transaction.atomic():
                answer: tuple[User | None, HttpResponse | None] = super().try_save(request)
        except IntegrityError:
            self.clean_email()
            if not self.account_already_exists:
                raise
            answer = super().try_save(request)
        return answer


class MemberLoginForm(LoginForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].label = ADDRESS


class MemberAddressForm(AddEmailForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].label = ADDRESS


class ForgottenPasswordForm(ResetPasswordForm):  # type: ignore[misc]
    users: list[User]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["email"].label = ADDRESS

    def clean_email(self) -> str:
        mail_try(context.request, self.cleaned_data["email"])
        email: str = super().clean_email()
        owner = owner_of_address(email)
        self.users = [user for user in self.users if user == owner]  # who gets the mail
        return email


class PasswordLabels:
    """Name the fields of a form of passwords as all other forms do: in small letters but for the first."""

    fields: dict[str, forms.Field]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.label = str(field.label).capitalize()


class NewPasswordByMailForm(PasswordLabels, ResetPasswordKeyForm):  # type: ignore[misc]
    """The form behind the link of a mail for a new password."""


class OtherPasswordForm(PasswordLabels, ChangePasswordForm):  # type: ignore[misc]
    """The form that asks for the present password, too."""


class FirstPasswordForm(PasswordLabels, SetPasswordForm):  # type: ignore[misc]
    """The form of somebody who has logged in by single sign-on alone."""


class CodeForm(AuthenticateForm):  # type: ignore[misc]
    """The form for the second factor at a log-in."""

    def clean_code(self) -> str:
        counters = code_try(context.request, self.user)
        code: str = super().clean_code()
        right(counters)
        return code


class CodeAgainForm(CodeForm, ReauthenticateForm):  # type: ignore[misc]
    """The form that asks a logged-in person for the second factor once more."""


class ReasonForm(forms.Form):
    reason = forms.CharField(
        max_length=300, required=False, help_text="Kept in the history, for everybody who may read it."
    )


def reason_in(data: Mapping[str, Any]) -> str:
    """Return the reason in the form, or an empty text where it is too long."""
    form = ReasonForm(data)
    return form.cleaned_data["reason"] if form.is_valid() else ""


class RoleForm(ReasonForm):
    role = forms.ChoiceField(choices=ROLE_CHOICES)


class InvitationForm(forms.Form):
    email = forms.EmailField(label="E-mail address", widget=forms.EmailInput(attrs={"autocomplete": "off"}))
    role = forms.ChoiceField(choices=ROLE_CHOICES, initial=SUBMITTER)
    reason = forms.CharField(max_length=300, required=False)


class JoinForm(forms.Form):
    """A request to join a tenant. `tenants` are those that the reader may ask."""

    tenant = forms.ChoiceField()
    why = forms.CharField(
        max_length=200,
        label="Why",
        help_text="One line for its owners. It stays in the tenant's history.",
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
    )

    def __init__(self, *args: Any, tenants: Iterable[Tenant], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        tenant = self.fields["tenant"]
        assert isinstance(tenant, forms.ChoiceField)  # noqa: S101  the class defines it
        tenant.choices = [(each.slug, each.name) for each in tenants]


class TokenForm(forms.Form):
    """A new token. `choices` are the scopes that are of use to the reader, each with its meaning."""

    name = forms.CharField(
        max_length=80, label="What is it for?", widget=forms.TextInput(attrs={"autocomplete": "off"})
    )
    days = forms.ChoiceField(
        choices=[("30", "30 days"), ("90", "90 days"), ("180", "180 days"), ("365", "One year")],
        initial="90",
        label="Works for",
    )
    scopes = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, label="What may it do?")

    def __init__(self, *args: Any, choices: list[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        scopes = self.fields["scopes"]
        assert isinstance(scopes, forms.MultipleChoiceField)  # noqa: S101  the class defines it
        scopes.choices = choices


class StaffTokenForm(TokenForm):
    """A new token of the staff. With a preset its scopes are taken, without one those that are ticked. `presets` is by
    name."""

    preset = forms.ChoiceField(widget=forms.RadioSelect, label="What is it to do?")
    field_order = ["name", "days", "preset", "scopes"]

    def __init__(self, *args: Any, presets: Mapping[str, ScopePreset], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        preset = self.fields["preset"]
        assert isinstance(preset, forms.ChoiceField)  # noqa: S101  the class defines it
        preset.choices = [(name, each.title) for name, each in presets.items()] + [(OWN_CHOICE, "As ticked below")]
        preset.initial = next(iter(presets), OWN_CHOICE)
        self.fields["scopes"].required = False
        self.presets = presets

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        if values.get("preset") in self.presets:
            preset = self.presets[values["preset"]]
            if set(values.get("scopes") or ()) - set(preset.scope_list):  # they would be lost without a word
                self.add_error("preset", f"{preset.title} has not all that is ticked below: choose “As ticked below”.")
            values["scopes"] = preset.scope_list
        elif "preset" in values and not values.get("scopes"):
            self.add_error("scopes", "Tick at least one, or choose one of the sets above.")
        return values


class HistoryForm(forms.Form):
    """A search in the history, by parts of words."""

    action = forms.CharField(required=False, max_length=60, label="What")
    subject = forms.CharField(required=False, max_length=120, label="About")
    person = forms.CharField(required=False, max_length=120, label="By")

    @property
    def filters(self) -> dict[str, str]:
        """Return the fields that were filled in and are valid."""
        self.is_valid()
        return {name: text for name, text in self.cleaned_data.items() if text}

    def filtered(self, entries: QuerySet[AuditEntry]) -> QuerySet[AuditEntry]:
        fields = self.filters
        if "action" in fields:  # the code of the action, from words as a reader would type them
            entries = entries.filter(action__icontains="_".join(fields["action"].split()))
        if "subject" in fields:
            entries = entries.filter(subject__icontains=fields["subject"])
        if "person" in fields:
            entries = entries.filter(actor_name__icontains=fields["person"])
        return entries


class TenantForm(forms.Form):
    name = forms.CharField(max_length=120)
    slug = forms.SlugField(
        max_length=40, label="Short name", help_text="In addresses: small letters, digits, hyphens. Never changes."
    )
    owner = forms.EmailField(
        label="First owner", help_text="An e-mail address. Whoever has no account is invited by mail."
    )
    reason = forms.CharField(max_length=300)


class ClaimMappingForm(forms.Form):
    claim = forms.CharField(
        max_length=CLAIM_LONGEST,
        help_text="A name, or a path with dots: <code>groups</code>, <code>realm_access.roles</code>.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    value = forms.CharField(
        max_length=VALUE_LONGEST,
        help_text="Exactly, or with one <code>*</code> for any characters.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    tenant = forms.SlugField(max_length=40, help_text="Its short name.")
    role = forms.ChoiceField(choices=ROLE_CHOICES, initial=VIEWER)
    reason = forms.CharField(max_length=300)


class ClaimRoleForm(forms.Form):
    role = forms.ChoiceField(choices=ROLE_CHOICES)
    reason = forms.CharField(max_length=300)


class ClaimTrialForm(forms.Form):
    """Claims that the reader pasted, and the person to whom they belong."""

    claims = forms.CharField(
        max_length=TRIAL_LONGEST,
        label="Claims",
        help_text="As JSON: the payload of a token, or the answer of the provider's userinfo.",
        widget=forms.Textarea(attrs={"rows": 8, "spellcheck": "false", "class": "input mono"}),
    )
    person = forms.EmailField(
        required=False,
        label="Of whom",
        help_text="An e-mail address. Without one, the claim <code>email</code> says.",
    )

    def clean_claims(self) -> dict[str, Any]:
        try:
            claims = json.loads(self.cleaned_data["claims"])
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(f"This is not JSON: {error}.") from error
        if not isinstance(claims, dict):
            raise forms.ValidationError("Claims are one JSON object: {...}.")
        return claims


class StaffForm(forms.Form):
    email = forms.EmailField(label="E-mail address", help_text="Of somebody with an account.")
    role = forms.ChoiceField(choices=[(role, role.capitalize()) for role in STAFF_ROLES])
    reason = forms.CharField(max_length=300)
