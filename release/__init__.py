"""Makes releases: freeze, archive, manifest, publish; a store interface with a folder store and a GitHub store."""
