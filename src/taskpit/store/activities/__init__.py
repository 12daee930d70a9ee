"""Work items, whose activities are claimed by lock files: the Store port over `progress.yaml` and `locks/`."""
