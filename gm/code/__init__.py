"""JavaScript and TypeScript as syntax: definitions, call sites, who calls whom, what a change reaches."""
