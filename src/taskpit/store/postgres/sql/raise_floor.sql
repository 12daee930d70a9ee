SELECT {s}.raise_floor(%(many)s)
