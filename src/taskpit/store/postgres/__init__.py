"""The same queue in a PostgreSQL database: one schema is one queue, each verb one function there.

What decides whether something happened is a transaction. The SQL lies in `sql/`; Python here spells values,
keeps connections, and says in words what the server refuses.
"""
