"""Pages, one a file: each is a function that lays out components and asks the client for what is not live."""
