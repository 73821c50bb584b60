"""Java plugins on `plugin.path`, found without a JVM: `scan` lists them, as Apache Connect's worker would find them.

Begin with `scanning`; `locations` says which folders and jars are plugins, `manifests` reads `META-INF/services`,
`class_files` reads what classes extend and implement, `kinds` knows Connect's own types. `sync` writes manifests.
`java_stage` has the transforms and converters of a connector that run in Java.
"""

from headrace.plugins.jars.java_stage import NO_JAVA_STAGE, ConfiguredJar, JavaStage, JavaStep
from headrace.plugins.jars.locations import archives_of, plugin_locations
from headrace.plugins.jars.scanning import DiscoveryMode, JarPlugin, connects_own, scan, scan_location

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
