"""What the test of S10 needs: planted secrets, a server whose tools and gateway leak, a search."""
