"""The command line: talks to people and programs, knows everything below, decides nothing."""
