"""Apicurio's class names for converters, over the registry's Confluent protocol."""
