"""The compiled core: from a published message to its receivers, and their pending output.

Only code that runs for each message, and the data it uses, belongs here. It imports no other
package of the server.
"""
