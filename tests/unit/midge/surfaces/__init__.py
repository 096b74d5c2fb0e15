"""The public surfaces of midge as lists, one entry a line, and what makes them from the tree.

`test_surfaces.py` compares the tree with them. A change of a surface changes its list in the
same commit: `python -m tests.unit.midge.surfaces` adds new entries; with `--drop`, it also
removes missing ones.
"""
