"""The stage: where recordings are played. Finding elements as Chrome's recorder names them, acting on them, waiting."""
