SELECT name, holder, kind, number, acquired, expires FROM {s}.lock WHERE holder IS NOT NULL ORDER BY name
