"""Running tasks: a pool of workers, agents and their backends."""
