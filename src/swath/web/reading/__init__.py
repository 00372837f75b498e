"""What can be read off a parsed page: text, tables, labelled values, links, XPath. Pure; `WebPage` offers it all."""
