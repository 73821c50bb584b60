"""Java plugins on `plugin.path`, found without a JVM: `scan` lists them, as Apache Connect's worker would find them.

Begin with `scanning`; `locations` says which folders and jars are plugins, `manifests` reads `META-INF/services`,
`class_files` reads what classes extend and implement, `kinds` knows Connect's own types. `sync` writes manifests.
"""

from headrace.plugins.jars.locations import archives_of, plugin_locations
from headrace.plugins.jars.scanning import DiscoveryMode, JarPlugin, scan, scan_location

__all__ = ["DiscoveryMode", "JarPlugin", "archives_of", "plugin_locations", "scan", "scan_location"]
