"""The models of people, tenants, memberships, invitations, staff, and the history of every change to them."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager
from django.contrib.postgres.fields import ArrayField
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Lower
from django.utils import timezone
from django.utils.functional import cached_property

from tenants.claims import CLAIM_LONGEST, VALUE_LONGEST, mapping_words
from tenants.roles import STAFF_ROLES, TENANT_ROLES
from tenants.scoping import TenantOwned


class UserManager(BaseUserManager["User"]):
    def create_user(self, email: str, password: str | None = None, **fields: Any) -> User:
        user = self.model(email=email.strip().lower(), **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user

    def get_by_natural_key(self, username: str | None) -> User:
        return self.get(email=(username or "").strip().lower())


class User(AbstractBaseUser):
    """A person. The e-mail address is the name to log in with; it is stored in lower case."""

    email = models.EmailField(unique=True)
    name = models.CharField(max_length=120, blank=True)
    is_active = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = UserManager()

    USERNAME_FIELD = "email"
    EMAIL_FIELD = "email"

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(email=Lower("email")), name="user_email_lower")]

    def __str__(self) -> str:
        return self.name or self.email

    @cached_property
    def is_staff(self) -> bool:
        """Return whether the person may open Django's admin, which is read-only. Each page of it asks once for every
        model and more, so the answer is kept with this object, which lives as long as the request."""
        return self.is_active and StaffGrant.objects.filter(user=self, revoked_at=None).exists()

    def has_perm(self, permission: str, obj: Any = None) -> bool:
        return permission.split(".")[-1].startswith("view_") and self.is_staff

    def has_module_perms(self, app_label: str) -> bool:
        return self.is_staff


class Tenant(models.Model):
    """A team, lab or company. It is never deleted, because the book names it for ever."""

    slug = models.CharField(
        max_length=40,
        unique=True,
        validators=[RegexValidator(r"^[a-z0-9]+(-[a-z0-9]+)*\Z", "Small letters, digits and single hyphens.")],
    )
    name = models.CharField(max_length=120)
    created_at = models.DateTimeField(auto_now_add=True)
    # Whether people who are not members may ask to join. If so, everybody who has an account sees the tenant's name.
    may_be_asked = models.BooleanField(default=False, db_default=False)

    class Meta:
        ordering = ["name", "slug"]

    def __str__(self) -> str:
        return self.name


class Membership(TenantOwned):
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    role = models.CharField(max_length=20, choices=[(role, role) for role in TENANT_ROLES])
    created_at = models.DateTimeField(default=timezone.now)  # older tokens of the person have no right by it
    # The mapping of claims that made it, in words. Empty if a person made it by hand; then claims do not change it.
    claim = models.CharField(max_length=300, blank=True, default="", db_default="")

    class Meta(TenantOwned.Meta):
        constraints = [
            models.UniqueConstraint(fields=["tenant", "user"], name="membership_once"),
            models.CheckConstraint(condition=Q(role__in=TENANT_ROLES), name="membership_role_known"),
        ]
        indexes = [models.Index(fields=["user"])]

    def __str__(self) -> str:
        return f"{self.user} ({self.role})"


class ClaimMapping(models.Model):
    """A rule of the operator: a person who logs in by single sign-on with this value in this claim gets this role in
    this tenant. It is not tenant-owned, because it decides who belongs to which tenant."""

    claim = models.CharField(max_length=CLAIM_LONGEST)  # a dotted path
    value = models.CharField(max_length=VALUE_LONGEST)  # exact, or a pattern with one *
    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="+")
    role = models.CharField(max_length=20, choices=[(role, role) for role in TENANT_ROLES])
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["pk"]
        constraints = [
            models.UniqueConstraint(fields=["claim", "value", "tenant"], name="claim_mapping_once"),
            models.CheckConstraint(condition=Q(role__in=TENANT_ROLES), name="claim_mapping_role_known"),
        ]

    def __str__(self) -> str:
        return mapping_words(self.claim, self.value)


class Invitation(TenantOwned):
    """An invitation to a tenant. One person (by e-mail address) can accept it once, until it expires. Only the token's
    hash is stored."""

    email = models.EmailField()
    role = models.CharField(max_length=20, choices=[(role, role) for role in TENANT_ROLES])
    token_hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    invited_by = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    accepted_at = models.DateTimeField(null=True, blank=True)
    accepted_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta(TenantOwned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "email"],
                condition=Q(accepted_at=None, revoked_at=None),
                name="invitation_one_open_per_address",
            ),
            models.CheckConstraint(condition=Q(email=Lower("email")), name="invitation_email_lower"),
            models.CheckConstraint(condition=Q(role__in=TENANT_ROLES), name="invitation_role_known"),
            models.CheckConstraint(
                condition=Q(accepted_at=None) | Q(revoked_at=None),
                name="invitation_not_both_accepted_and_revoked",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.email} ({self.role})"


class JoinState(models.TextChoices):
    WAITING = "waiting", "Waiting"
    ACCEPTED = "accepted", "Accepted"
    DECLINED = "declined", "Declined"
    WITHDRAWN = "withdrawn", "Withdrawn"


class JoinRequest(TenantOwned):
    """The request of a non-member to join a tenant. An owner accepts or declines it, or the person withdraws it."""

    person = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    why = models.CharField(max_length=200)  # one line, for the owners
    state = models.CharField(max_length=10, choices=JoinState.choices)
    asked_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    # None while it waits, or if the person joined by single sign-on meanwhile.
    ended_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    role = models.CharField(max_length=20, blank=True, choices=[(role, role) for role in TENANT_ROLES])
    answer = models.CharField(max_length=300, blank=True)  # why it was declined, for the person

    class Meta(TenantOwned.Meta):
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "person"], condition=Q(state="waiting"), name="join_request_one_waiting_per_person"
            ),
            models.CheckConstraint(condition=Q(state__in=JoinState.values), name="join_request_state_known"),
            models.CheckConstraint(
                condition=Q(state="waiting", ended_at=None) | ~Q(state="waiting") & Q(ended_at__isnull=False),
                name="join_request_waits_until_it_ends",
            ),
            models.CheckConstraint(
                condition=Q(state="accepted", role__in=TENANT_ROLES) | ~Q(state="accepted") & Q(role=""),
                name="join_request_accepted_with_a_role",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.person} ({self.state})"


class StaffGrant(models.Model):
    """A role over all tenants: from when to when a person has it, and who granted it and why. Revoked grants stay."""

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    role = models.CharField(max_length=20, choices=[(role, role) for role in STAFF_ROLES])
    granted_at = models.DateTimeField()
    granted_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    granted_reason = models.CharField(max_length=300)
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    revoked_reason = models.CharField(max_length=300, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "role"], condition=Q(revoked_at=None), name="staff_grant_one_open_per_role"
            ),
            models.CheckConstraint(condition=Q(role__in=STAFF_ROLES), name="staff_grant_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user}: {self.role}"


class ApiToken(models.Model):
    """A token with which a person's program calls the interface: for one tenant, or with the person's staff roles.

    It is not tenant-owned: it is looked up by its hash before the tenant is known, and a staff token has no tenant.
    Read it through selectors, which check who reads. Only the hash of the secret is stored.
    """

    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    tenant = models.ForeignKey(Tenant, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    name = models.CharField(max_length=80)
    scopes = ArrayField(models.CharField(max_length=40))
    hint = models.CharField(max_length=20)  # the first characters of the secret, to recognise it by
    token_hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True, blank=True)  # to the minute
    revoked_at = models.DateTimeField(null=True, blank=True)
    revoked_by = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    # Not a column: the person's role in the tenant, as `selectors.token_by_hash` has just read it. It is None where the
    # membership has ended, also if the person has come back since.
    role: str | None

    class Meta:
        indexes = [models.Index(fields=["tenant", "id"], name="token_of_tenant")]
        constraints = [
            models.CheckConstraint(condition=Q(expires_at__gt=F("created_at")), name="token_expires_after_creation")
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.hint})"


class KeptAnswer(models.Model):
    """The answer to a request with an `Idempotency-Key`, written in the transaction of what the request did."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    request_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    body = models.TextField()
    location = models.CharField(max_length=300, blank=True)
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="kept_answer_once_per_key")]

    def __str__(self) -> str:
        return f"{self.status} for {self.key}"


class AuditEntry(models.Model):
    """One change, in one chain over all tenants. Only tenants.history writes entries, and none is ever changed.

    It is not tenant-owned: an entry may concern no tenant, and the chain is checked as a whole. Read it through
    selectors.audit_entries, which checks who reads.
    """

    sequence = models.BigIntegerField(unique=True)
    at = models.DateTimeField()
    actor = models.ForeignKey(User, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    actor_name = models.CharField(max_length=300)  # the name at that time; "system" if no person acted
    tenant = models.ForeignKey(Tenant, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    action = models.CharField(max_length=60)
    subject = models.CharField(max_length=300)
    reason = models.CharField(max_length=300)
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    # The newest seal of the ledger when this was written. So the removal of seals contradicts the history.
    seal_number = models.BigIntegerField(null=True, blank=True)
    seal_digest = models.CharField(max_length=64, blank=True)
    previous_hash = models.CharField(max_length=64)
    hash = models.CharField(max_length=64, unique=True)

    class Meta:
        ordering = ["-sequence"]
        indexes = [models.Index(fields=["tenant", "-sequence"])]

    def __str__(self) -> str:
        return f"{self.sequence}: {self.action} {self.subject}"


class AuditHead(models.Model):
    """The end of the chain: one row, which each append locks. It shows whether the last entries were cut off."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    sequence = models.BigIntegerField()
    hash = models.CharField(max_length=64)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="audit_head_single")]

    def __str__(self) -> str:
        return f"{self.sequence}: {self.hash}"
