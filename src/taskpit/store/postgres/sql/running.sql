SELECT l.id, l.touches, l.limits FROM {s}.lease l WHERE l.touches IS NOT NULL OR l.limits IS NOT NULL
