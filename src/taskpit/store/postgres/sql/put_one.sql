SELECT answers, rings FROM {s}.put_one(%(id)s, %(big)s, %(key)s, %(wish)s, %(doc)s, %(worker)s, %(details)s, %(now)s)
