"""The test kit for plugin authors, `headrace.plugins.testkit`, by a short name."""

from headrace.plugins.testkit import *  # noqa: F403
