"""The console in a real browser, and the limits of other pages there: headless Chromium."""
