"""The crew: members that `agents.toml` names, started, watched and stopped by one supervisor per queue."""
