SELECT {s}.keep_lock(%(name)s, %(holder)s, %(number)s, %(seconds)s, %(now)s)
