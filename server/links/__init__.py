"""What all links to other servers have in common, whatever dialect they speak."""
