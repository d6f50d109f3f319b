"""Everything that changes who belongs where. There is one function per use case, atomic, with its line in the history.

A refusal is a value (`Refused`); an exception is a broken promise. Locks are taken in this order: the tenant's row,
memberships or invitations, and last the end of the history.
"""

from tenants.services.claims import claim_mapping_add as claim_mapping_add
from tenants.services.claims import claim_mapping_change as claim_mapping_change
from tenants.services.claims import claim_mapping_remove as claim_mapping_remove
from tenants.services.claims import claims_apply as claims_apply
from tenants.services.claims import claims_join_any as claims_join_any
from tenants.services.claims import claims_try as claims_try
from tenants.services.invitations import IssuedInvitation as IssuedInvitation
from tenants.services.invitations import invitation_accept as invitation_accept
from tenants.services.invitations import invitation_create as invitation_create
from tenants.services.invitations import invitation_revoke as invitation_revoke
from tenants.services.invitations import invitation_send_again as invitation_send_again
from tenants.services.invitations import invitation_state as invitation_state
from tenants.services.invitations import token_hash as token_hash
from tenants.services.join_requests import join_request_accept as join_request_accept
from tenants.services.join_requests import join_request_create as join_request_create
from tenants.services.join_requests import join_request_decline as join_request_decline
from tenants.services.join_requests import join_request_withdraw as join_request_withdraw
from tenants.services.join_requests import may_be_asked_set as may_be_asked_set
from tenants.services.members import member_add as member_add
from tenants.services.members import member_remove as member_remove
from tenants.services.members import member_role_change as member_role_change
from tenants.services.members import tenant_create as tenant_create
from tenants.services.openings import OpenedTenant as OpenedTenant
from tenants.services.openings import tenant_open as tenant_open
from tenants.services.staff import person_create as person_create
from tenants.services.staff import staff_grant as staff_grant
from tenants.services.staff import staff_revoke as staff_revoke
from tenants.services.tokens import IssuedToken as IssuedToken
from tenants.services.tokens import token_create as token_create
from tenants.services.tokens import token_revoke as token_revoke
