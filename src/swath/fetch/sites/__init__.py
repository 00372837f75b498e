"""Site policies, and the rate limiter and circuit breaker that enforce them over all workers."""
