"""The data pipeline on Apache Spark: source, sink, lake layers, matching, report and replay."""
