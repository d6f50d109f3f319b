"""The mails that the product writes itself; allauth writes those about accounts."""

from __future__ import annotations

import logging
from smtplib import SMTPException

from django.core.mail import send_mail

from tenants.models import Invitation
from tenants.names import in_one_line

log = logging.getLogger(__name__)


def invitation_mail(invitation: Invitation, link: str) -> bool:
    """Send the invitation, and return whether that worked. If no mail server answers, the inviter passes
    the link on."""
    until, tenant = invitation.expires_at, in_one_line(invitation.tenant.name)
    text = (
        f"{in_one_line(str(invitation.invited_by))} invites you to {tenant} on Bourse, as {invitation.role}.\n\n"
        f"{link}\n\n"
        f"The link is for {invitation.email}, works once, and until {until:%d %B %Y, %H:%M} UTC. With it you make your "
        "account, by a password or by single sign-on where your organisation has one.\n"
    )
    try:
        send_mail(f"{tenant} on Bourse", text, None, [invitation.email])
    except (OSError, SMTPException):
        log.warning("an invitation to %s could not be sent by mail", invitation.email, exc_info=True)
        return False
    return True
