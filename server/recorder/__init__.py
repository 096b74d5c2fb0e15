"""Record what the server routes as Parquet files, without ever slowing or stopping the router."""
