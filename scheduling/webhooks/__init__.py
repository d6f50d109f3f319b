"""Calls to addresses outside: events to webhooks of tenants, and notices to chat tools of persons.

People change `changes` and `chats`; `addresses`, `calls` and `signing` are about the world outside; `deliveries`,
`rounds` and `receivers` send, try again, and give up.
"""
