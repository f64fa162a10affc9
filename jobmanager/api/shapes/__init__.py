"""The shapes of what the API answers: one module a resource, one class a JSON object.

These classes are the only place where the shape of an answer is written by hand. FastAPI
makes the OpenAPI document of them (`python -m jobmanager.api.openapi`); the dashboard's
TypeScript types are generated from that document, and a test compares the types of the
Python client with it. docs/rest-api.md says what to run after a change.
"""
