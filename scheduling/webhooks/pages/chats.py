"""Change the chat tool that gets a person's notices: its address is saved here, and never shown again in whole."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import timezone

from scheduling.webhooks.chats import chat_remove, chat_set, chat_switch
from tenants.access import AccessRequest
from tenants.views.gate import posted_from, tell


@posted_from("notice_choices")
def notice_chat(request: AccessRequest) -> HttpResponse:
    """Save the address, switch it on or off, or remove it, as the button says that was pressed."""
    person, pressed = request.access.user, request.POST.get("press")
    assert person is not None  # noqa: S101  the log-in middleware lets nobody else through
    if pressed in ("on", "off"):
        done = "You are told there again, from now on." if pressed == "on" else "Nothing is said there any more."
        tell(request, chat_switch(person=person, active=pressed == "on"), done)
    elif pressed == "remove":
        refusal = chat_remove(person=person)
        tell(request, refusal, "The address is removed.")
    elif pressed == "save":
        url, form = request.POST.get("url", "").strip(), request.POST.get("form", "")
        outcome = chat_set(person=person, url=url, form=form, at=timezone.now())
        tell(request, outcome, "Saved. A greeting is on its way there. Now tick what is to be said in chat.")
    else:
        messages.error(request, "Nothing was changed.")
    return redirect("notice_choices")
