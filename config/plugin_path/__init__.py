"""Java plugins on `plugin.path`, found without a JVM: `scan` lists them as Apache Connect's worker would.

Begin with `scanning`. `locations` finds the folders and jars that are plugins, `manifests` reads `META-INF/services`,
`class_files` reads supertypes of classes, `kinds` knows Connect's own types, `sync` writes manifests. `java_stage` has
the transforms and converters of a connector that run in Java.
"""

from headrace.config.plugin_path.java_stage import NO_JAVA_STAGE, ConfiguredJar, JavaStage, JavaStep
from headrace.config.plugin_path.locations import archives_of, plugin_locations
from headrace.config.plugin_path.scanning import DiscoveryMode, JarPlugin, connects_own, scan, scan_location

__all__ = [
    "NO_JAVA_STAGE",
    "ConfiguredJar",
    "DiscoveryMode",
    "JarPlugin",
    "JavaStage",
    "JavaStep",
    "archives_of",
    "connects_own",
    "plugin_locations",
    "scan",
    "scan_location",
]
