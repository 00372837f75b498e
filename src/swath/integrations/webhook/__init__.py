"""Webhooks: payload.py says what is told of a job's end, sign.py proves that it was us, courier.py delivers it."""
