"""Set-up of agents."""
