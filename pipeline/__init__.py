"""The data pipeline: Spark source and sink, lake, matching, report, replay, and streams as tables.

Code that needs Spark, Arrow or Parquet belongs here, and what reads recordings. The connection to a
server belongs into `client/`, the recorder into `server/recorder`.
"""
