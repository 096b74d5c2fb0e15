"""Programs written with other projects' libraries, which run unchanged on both servers."""
