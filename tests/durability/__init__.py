"""The real process and a real disk: a change is on the medium before its answer is sent."""
