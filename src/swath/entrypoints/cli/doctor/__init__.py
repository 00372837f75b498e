"""`swath doctor`: checks the installation. A check takes a CheckContext and returns a CheckResult."""
