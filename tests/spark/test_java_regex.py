"""Java's own regular expressions as the oracle: full matches, and what replaceFirst makes of them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from headrace.config.problems import ConfigError
from headrace.plugins.interop.java.regex import JavaRegex, regex_problem
from tests.spark.java import java_object

pytestmark = pytest.mark.spark

JAVA: Final = """
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public class Regexes {
  public String answer(String pattern, String replacement, List texts) {
    StringBuilder answer = new StringBuilder();
    for (int i = 0; i < texts.size(); i++) {
      answer.append(one(pattern, replacement, (String) texts.get(i))).append((char) 1);
    }
    return answer.toString();
  }

  private String one(String pattern, String replacement, String text) {
    try {
      Matcher matcher = Pattern.compile(pattern).matcher(text);
      return matcher.matches() ? "true:" + matcher.replaceFirst(replacement) : "false:" + text;
    } catch (RuntimeException e) {
      return e.getMessage();
    }
  }
}
"""
TEXTS: Final = ["topic-1", "topic", "t", "", "Topic.é", "a.b.c", "x-y-z", "aab", "t{1}", "\\E"]
REPLACED: Final = [
    (".*", "x"),
    ("(.*)", "$1$1"),
    ("(.*)-(\\d)", "$2-$1"),
    ("(.*)-(.+)", "<$2>$1$0"),
    ("t", "x"),
    ("t|topic", "[$0]"),
    ("(?:topic|topic-1)", "X"),
    ("(t.*?)|(.*)", "[$1][$2]"),
    ("t?.*?", "X"),
    ("(?<n>.*)-1", "${n}\\$\\\\x"),
    ("(?i)T(o)pic.*", "$1$10"),
    ("(x)?.*", "<$1>"),
    ("(a*)(ab)?", "<$1,$2>"),
    ("(.)(.*)", "$2$1\\n"),
    ("[a-z&&[^b]]*-[\\p{Digit}]*+", "\\d"),
    ("\\Qt{1}", "literal"),
    ("\\Qt\\E.*", "quoted"),
    ("[]a.-z\\]]+", "class"),
    ("[^\\[(]*", "no class"),
    ("a\\.b\\..*", "dots"),
    ("\\\\.*", "backslash"),
    ("(?=t)(t)(?!x)(?<k>.)\\k<k>?.*", "$2$1"),
    ("", "empty"),
    ("(?:)(.)(.)(.)(.)(.)(.)(.)", "$7$6$12"),
    ("(?x) t o p i c # a comment", "commented"),
]
WRONG_REPLACEMENTS: Final = [
    (".*", "$1"),
    (".*", "${n}"),
    (".*", "a$"),
    (".*", "\\"),
    ("(.*)", "$a"),
    (".*", "${"),
    (".*", "${}"),
    (".*", "${1}"),
    ("(?<n>.*)", "${n"),
    ("(.*)", "$2"),
]
WRONG: Final = [
    "[a",
    "(a",
    "(a))",
    "a)",
    ")",
    "*a",
    "(+",
    "a|?",
    "[]",
    "[^]",
    "[[a]",
    "\\",
    "(?<n>a)(?<n>b)",
    "(?:a",
]


def java(spark: SparkSession, pattern: str, replacement: str, texts: list[str]) -> list[str]:
    """Of each text whether it matches and what becomes of it; instead Java's message where it refuses to say."""
    told: list[str] = str(java_object(spark, "Regexes", JAVA).answer(pattern, replacement, texts)).split("\x01")[:-1]
    return told


def test_topics_are_replaced_as_in_java(spark: SparkSession) -> None:
    column = F.col("text")
    columns = []
    for pattern, replacement in REPLACED:
        regex = JavaRegex("regex", pattern)
        columns.append(F.concat(regex.matches(column).cast("string"), F.lit(":"), regex.replaced(column, replacement)))
    rows = spark.createDataFrame([(text,) for text in TEXTS], ["text"]).coalesce(1).select(*columns).collect()
    wrong = []
    for number, (pattern, replacement) in enumerate(REPLACED):
        both = zip(TEXTS, (row[number] for row in rows), java(spark, pattern, replacement, TEXTS), strict=True)
        wrong += [(pattern, *one) for one in both if one[1] != one[2]]
    assert wrong == []


def test_wrong_replacements_are_told_in_javas_words(spark: SparkSession) -> None:
    told = []
    for pattern, replacement in WRONG_REPLACEMENTS:
        with pytest.raises(ValueError, match=r".") as ours:
            JavaRegex("regex", pattern).replaced(F.col("text"), replacement)
        told.append((pattern, replacement, [str(ours.value)]))
    assert told == [(p, r, java(spark, p, r, ["topic"])) for p, r in WRONG_REPLACEMENTS]


def test_wrong_expressions_are_told_in_javas_words(spark: SparkSession) -> None:
    begin = "Invalid value {} for configuration regex: Invalid regex: "
    wanted = [begin.format(pattern) + java(spark, pattern, "", ["topic"])[0] for pattern in WRONG]
    assert [regex_problem("regex", pattern) for pattern in WRONG] == wanted


@pytest.mark.parametrize("pattern", [r"\k", "[b-a]", "a{", "(?y)", "a{2,1}", r"\p{Foo}"])
def test_other_faults_are_told_in_javas_words_once_there_is_a_jvm(spark: SparkSession, pattern: str) -> None:
    assert regex_problem("regex", pattern) is None
    with pytest.raises(ConfigError) as refused:
        JavaRegex("regex", pattern)
    begin = f"Invalid value {pattern} for configuration regex: Invalid regex: "
    assert refused.value.problems[0].message == begin + java(spark, pattern, "", ["topic"])[0]


@pytest.mark.parametrize("pattern", ["(?x) t o p i c # a comment", r"\Qtopic"])
def test_flags_and_quotes_without_end_reach_to_the_end_of_the_expression(spark: SparkSession, pattern: str) -> None:
    matches = JavaRegex("regex", pattern).matches(F.col("text"))
    rows = spark.createDataFrame(pa.table({"text": ["topic", "t"]})).select(matches).collect()
    assert [row[0] for row in rows] == [True, False]
