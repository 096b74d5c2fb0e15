"""The compiled core: from one published message to everybody who gets it."""
