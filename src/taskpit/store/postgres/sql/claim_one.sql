SELECT id, doc, fence, since
FROM {s}.claim_one(%(worker)s, %(bigs)s, %(lease)s, %(call)s, %(member)s, %(limits)s, %(again)s, %(now)s)
