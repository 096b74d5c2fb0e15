"""Options: their structure, their checks, and the files, flags and keywords that set them."""
