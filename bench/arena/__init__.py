"""What `bench/run.py` is made of: entrants (ours, peers, bare calls), scenes, goals, and the report."""
