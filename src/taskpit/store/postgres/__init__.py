"""A queue in a PostgreSQL database: one schema is one queue, and each verb is one function there.

A transaction decides whether something happened. The SQL is in `sql/`: `functions/` has the verbs, the other files the
statements that call them. Python converts values, keeps connections, and explains errors of the server.
"""
