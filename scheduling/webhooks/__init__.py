"""What is told at addresses outside: events at webhooks of tenants, notices in chat tools of persons.

`changes` and `chats` are made by people; `addresses`, `calls` and `signing` are about the world outside; `deliveries`,
`rounds` and `receivers` are how it is told, tried again, and given up.
"""
