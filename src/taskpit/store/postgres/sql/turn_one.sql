SELECT answers, rings, id, doc, fence, since
FROM {s}.turn_one(%(id)s, %(fence)s, %(mark)s, %(seen)s, %(verdict)s, %(result)s, %(attempt)s, %(action)s, %(details)s,
                  %(worker)s, %(bigs)s, %(lease)s, %(call)s, %(member)s, %(limits)s, %(again)s, %(now)s)
