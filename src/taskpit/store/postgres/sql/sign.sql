UPDATE {s}.member m SET until = {s}.time_of(%(now)s) + %(lease)s, lease = %(lease)s, graced = 0
WHERE m.id = ANY (ARRAY(SELECT x::bigint FROM jsonb_array_elements_text(%(numbers)s::jsonb) x))
