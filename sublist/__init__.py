"""Subjects, subscriptions and the SubList that matches one against the other."""
