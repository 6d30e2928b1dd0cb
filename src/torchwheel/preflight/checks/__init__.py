"""One function for each rule; what a rule is for stands in ``rules/*.toml``."""
