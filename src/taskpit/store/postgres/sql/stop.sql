INSERT INTO {s}.stop SELECT t.id FROM {s}.task t WHERE t.id = ANY (ARRAY(SELECT jsonb_array_elements_text(%(ids)s::jsonb))) AND t.state = 'o' ON CONFLICT DO NOTHING
