"""Speed and size of recall and add, relative to their parts."""
