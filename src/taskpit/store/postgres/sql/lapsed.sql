SELECT * FROM {s}.lapsed(
    ARRAY(SELECT x::bigint FROM jsonb_array_elements_text(%(dead)s::jsonb) x), %(dry)s, %(now)s)
