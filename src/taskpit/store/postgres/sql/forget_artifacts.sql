DELETE FROM {s}.artifact a WHERE a.id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)))
