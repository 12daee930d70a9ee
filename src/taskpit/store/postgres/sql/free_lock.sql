SELECT {s}.free_lock(%(name)s, %(holder)s, %(number)s, %(again)s)
