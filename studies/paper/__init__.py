"""The experiments of Wang, Kifer and Lee: data, printed numbers, panels and findings."""
