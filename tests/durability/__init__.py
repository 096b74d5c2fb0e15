"""The real process and a real disk: what is answered is on the medium before the answer leaves."""
