DELETE FROM {s}.waiter WHERE sleeper = %(sleeper)s
