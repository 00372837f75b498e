"""Chromium as a process: finds it, starts it sandboxed on a virtual display, and removes what it leaves behind."""
