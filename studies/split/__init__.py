"""How the split of the budget was chosen."""
