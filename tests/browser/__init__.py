"""What a person sees in a browser, and what a page there can do: headless Chromium."""
