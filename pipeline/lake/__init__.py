"""The lake: bronze, silver and gold tables and the jobs that fill them."""
