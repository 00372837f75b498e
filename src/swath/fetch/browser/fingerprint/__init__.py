"""What a browser context shows to a site: window, screen, languages, time zone and position, as of one region."""
