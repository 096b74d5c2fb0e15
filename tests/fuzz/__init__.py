"""Whole connections in process, fed with what no client should send; see world.py and ledger.py."""
