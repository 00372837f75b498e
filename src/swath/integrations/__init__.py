"""Programs of other people that Swath speaks to beside the sites: each in a package of its own."""
