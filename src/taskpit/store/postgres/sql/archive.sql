SELECT {s}.archive(ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb)), %(file)s)
