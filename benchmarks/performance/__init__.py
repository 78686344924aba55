"""Speed and size: what recall and add cost beside what they are made of."""
