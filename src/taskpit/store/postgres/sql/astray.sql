SELECT id, kind, doc FROM {s}.astray()
