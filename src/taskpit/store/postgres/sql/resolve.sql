SELECT t.id FROM {s}.task t WHERE t.id >= %(text)s AND t.id < %(end)s AND t.state <> 'w' ORDER BY t.id LIMIT %(limit)s
