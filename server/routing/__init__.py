"""The compiled core: from a published message to its receivers."""
