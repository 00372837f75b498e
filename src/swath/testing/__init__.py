"""What tests are made of, ours and those of people who write scrapers or back ends: contract suites, servers, fakes."""
