"""Stores over a simulated disk that loses, tears and refuses."""
