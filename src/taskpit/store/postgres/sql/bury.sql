DELETE FROM {s}.member m WHERE m.id = ANY (ARRAY(SELECT x::bigint FROM jsonb_array_elements_text(%(numbers)s::jsonb) x))
