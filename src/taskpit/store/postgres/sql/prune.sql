SELECT {s}.prune(%(state)s, %(keep)s, %(dry)s, %(now)s)
