"""Reads text, tables, labelled values, links and XPath results from a parsed page. Pure."""
