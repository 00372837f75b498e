"""The chaos run on the local AWS servers (`make chaos-aws`)."""
