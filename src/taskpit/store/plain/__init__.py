"""The store that is a folder: see `protocol` for its one table."""
