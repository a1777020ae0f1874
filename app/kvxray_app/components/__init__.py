"""Live components of the page: a thin Python file each, which mounts an ES module and its style sheet from this folder.

The backend serves this folder's .js and .css files at /assets/kvxray/. All modules of a page share `feed.js`, and so
one WebSocket. Python hands over what does not change (palettes, words, the source); everything that moves comes over
the feed.
"""
