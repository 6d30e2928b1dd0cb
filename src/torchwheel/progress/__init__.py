"""What a build is doing, what it took, and how long it may take: recorded, estimated, shown and reported."""
