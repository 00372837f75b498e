"""The words of Swath and its rules: pure values and decisions, without I/O."""
