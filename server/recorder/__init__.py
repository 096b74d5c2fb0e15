"""Record the routed messages as Parquet files, without ever slowing or stopping the router."""
