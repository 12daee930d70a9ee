"""A queue behind a gateway: the port over HTTP. Standard library only; `taskpit.serve` is the other end."""
