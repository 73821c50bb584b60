"""Preview: what a config would do to real records, stage by stage, without changing anything."""
