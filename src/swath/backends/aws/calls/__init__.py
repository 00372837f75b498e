"""How this process talks to AWS: a thread, bounded and counted calls, rows as they are sent, translated errors."""
