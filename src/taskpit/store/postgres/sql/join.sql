SELECT {s}.join_as(%(worker)s, %(host)s, %(pid)s, %(born)s, %(lease)s,
    ARRAY(SELECT x::bigint FROM jsonb_array_elements_text(%(dead)s::jsonb) x), %(again)s, %(now)s)
