"""For people who write a store: the contract it must keep, and a clock that stands still."""
