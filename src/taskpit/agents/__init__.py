"""What is known of agents: what they cost, what they have learned, how they are steered. Runs no process."""
