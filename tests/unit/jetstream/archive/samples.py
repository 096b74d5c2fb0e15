"""Archives that nats-server 2.15.1 itself has written."""

from base64 import b64decode

SNAPSHOT = b64decode(
    "/wYAAFMyc1R3TwCuAgAno75w08oT8ElOQVRTQVJDMQrixci86J6k6jEAAMMBc3RhdGUuanNvbnsibWVzc2FnZXMi"
    "OjMsImJ5dGVzIjozMjAyMzgsImZpcnN0X3NlcSI6MREOnHRzIjoiMjAyNi0xMS0yMlQwNTo1ODoxMy4zOTU5Njk5"
    "NDVaIiwibGEROQA0DQ1aOABkNC4yMjEwODQ1MjdaIiwibnVtX3N1YmplY3QJkohudW1fZGVsZXRlZCI6MSwiY29u"
    "c3VtZXJfY291bnQiOjF9Cx3bBJ0DESCEcy9DeyJjb25maWciOnsiZHVyYWJsZV9uYW1lIjoiQyIsIh0LZGRlbGl2"
    "ZXJfcG9saWN5IjoiYWxsIiwiYWNrGRMcZXhwbGljaXQNGCB3YWl0IjozMDARAhQsIm1heF8NSiwiOi0xLCJyZXBs"
    "YXkZQ2RpbnN0YW50IiwibWF4X3dhaXRpbmciOjUxMgk9QGFja19wZW5kaW5nIjoxMDAwCf/kcmVwbGljYXMiOjAs"
    "Im1ldGFkYXRhIjp7Il9uYXRzLnJlcS5sZXZlbCI6IjAifX0sInN0YXRlIjp7Ig2OEGVkIjp7OTo0c2VxIjoyLCJz"
    "dHJlYW0ppgQzfQnXEGZsb29yRi4AADEVAAYMMX0sIhWp8FJ7IjMiOnsiU2VxdWVuY2UiOjIsIlRpbWVzdGFtcCI6"
    "MTc5NTMyNzA5Mzk3NTY4NzkxOH19fX0Gst6CmNeepOoxAQCAxBNzLmxvbmdhYmNkZWZnaBEIHQDs4QPwXwPci/HA"
    "256k6jEDFipzLjJOQVRTLzEuMA0KTGFuZzogZW4NCg0KdG8gYmUgb3Igbm90IHRvIGJlLCB0aGF0IGlzIHRoZSBx"
    "dWVzdGlvbiAyA97d9KrdnqTqMQQWKnMuMw8O5QQA6lAAFDMAAAAAAA=="
)
"""A stream of 4 messages, the second deleted, the first of 320,000 bytes; with a consumer."""
