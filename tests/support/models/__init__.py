"""Models of the protocols, small enough to try every order of events: see `explorer` for how."""
