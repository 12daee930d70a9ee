"""The chapters of the contract, each about one side of a store."""
