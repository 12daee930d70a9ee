"""Stores: did it happen exactly once. `port` says what one must do; `files` and `memory` do it."""
