SELECT {s}.allot(%(count)s)
