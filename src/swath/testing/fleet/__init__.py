"""`make fleet`: what a job on AWS asks of each service and costs, how workers add up, and how large jobs are loaded."""
