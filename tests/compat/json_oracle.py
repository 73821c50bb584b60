"""Apache's own JsonConverter, running in the Spark driver's JVM.

Its jars stand in a class loader of their own, which sees neither Spark nor Spark's Jackson: what answers is Apache's
converter as it runs in Connect. A few lines of Java, compiled there, hand values across, because py4j itself turns
every boxed number into a Python one and back into another type.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_SOURCE = """
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Map;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.json.JsonConverter;

public class Oracle {
  private final JsonConverter converter = new JsonConverter();
  private final JsonConverter plain = new JsonConverter();

  public void configure(Map settings, Map schemaless) {
    converter.configure(settings, false);
    plain.configure(schemaless, false);
  }

  public String read(byte[] document) {
    SchemaAndValue read;
    try {
      read = converter.toConnectData("t", document);
    } catch (DataException e) {
      return "error:" + e.getMessage();
    }
    Object value = read.value();
    if (read.schema() == null) {
      if (value == null) return "schemaless:null";
      return "schemaless:" + new String(plain.fromConnectData("t", null, value), StandardCharsets.UTF_8);
    }
    String text = String.valueOf(value);
    if (value instanceof byte[]) text = Base64.getEncoder().encodeToString((byte[]) value);
    if (value instanceof Float) text = String.valueOf(Float.floatToIntBits(((Float) value).floatValue()));
    if (value instanceof Double) text = String.valueOf(Double.doubleToLongBits(((Double) value).doubleValue()));
    return read.schema().type() + ":" + text;
  }

  public byte[] through(byte[] document) {
    SchemaAndValue read = converter.toConnectData("t", document);
    return converter.fromConnectData("t", read.schema(), read.value());
  }

  public String text(byte[] document) {
    return String.valueOf(converter.toConnectData("t", document).value());
  }

  public byte[] write(String schemaText, String text) throws Exception {
    Schema schema = converter.asConnectSchema(new ObjectMapper().readTree(schemaText));
    return converter.fromConnectData("t", schema, text == null ? null : value(schema.type().name(), text));
  }

  private static Object value(String type, String text) {
    if (type.equals("INT8")) return Byte.valueOf(text);
    if (type.equals("INT16")) return Short.valueOf(text);
    if (type.equals("INT32")) return Integer.valueOf(text);
    if (type.equals("INT64")) return Long.valueOf(text);
    if (type.equals("FLOAT32")) return Float.valueOf(text);
    if (type.equals("FLOAT64")) return Double.valueOf(text);
    if (type.equals("BOOLEAN")) return Boolean.valueOf(text);
    if (type.equals("BYTES")) return Base64.getDecoder().decode(text);
    return text;
  }
}
"""


class JavaJsonConverter:
    """Apache's JsonConverter with these settings."""

    def __init__(self, oracle_class: Any, no_parameters: Any, no_arguments: Any, settings: Mapping[str, str]) -> None:
        self._oracle = oracle_class.getDeclaredConstructor(no_parameters).newInstance(no_arguments)
        self._oracle.configure(dict(settings), {"schemas.enable": "false"})

    def read(self, document: bytes) -> str:
        """`TYPE:value`, `schemaless:JSON` or `error:message`; a float's value is its bits, bytes are base64."""
        return str(self._oracle.read(bytearray(document)))

    def through(self, document: bytes) -> bytes | str | None:
        """The document read and written again, or the error's message."""
        from py4j.protocol import Py4JJavaError

        try:
            written = self._oracle.through(bytearray(document))
        except Py4JJavaError as error:
            return str(error.java_exception.getMessage())
        return None if written is None else bytes(written)

    def text(self, document: bytes) -> str:
        """Return the `String.valueOf` of the value that is read."""
        return str(self._oracle.text(bytearray(document)))

    def write(self, schema: str, text: str | None) -> bytes | str:
        """The document for a value given as text, or the error's message."""
        from py4j.protocol import Py4JJavaError

        try:
            return bytes(self._oracle.write(schema, text))
        except Py4JJavaError as error:
            return str(error.java_exception.getMessage())


class Apache:
    """Apache Connect's classes, loaded once per session."""

    def __init__(self, spark: SparkSession, jars: list[Path]) -> None:
        jvm: Any = spark._jvm
        gateway: Any = spark.sparkContext._gateway
        urls = gateway.new_array(jvm.java.net.URL, len(jars))
        for number, jar in enumerate(jars):
            urls[number] = jvm.java.io.File(str(jar)).toURI().toURL()
        loader = jvm.java.net.URLClassLoader(urls, jvm.java.lang.ClassLoader.getPlatformClassLoader())
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(_SOURCE)
        self._class = compiler.getClassLoader().loadClass("Oracle")
        self._nothing = (gateway.new_array(jvm.java.lang.Class, 0), gateway.new_array(jvm.java.lang.Object, 0))

    def json_converter(self, settings: Mapping[str, str]) -> JavaJsonConverter:
        """A JsonConverter."""
        return JavaJsonConverter(self._class, *self._nothing, settings)
