"""The data pipeline on Apache Spark: sources, sinks, lake layers, subject matching, report and replay."""
