"""The benchmark of `make bench`: Swath, its peers and a hand-written script on the same pages, in the same run."""
