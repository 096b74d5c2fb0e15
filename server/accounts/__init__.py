"""Accounts: as configured or from tokens, their exports and imports, their mappings."""
