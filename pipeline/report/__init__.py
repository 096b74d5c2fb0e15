"""The report: one page of HTML with plots."""
