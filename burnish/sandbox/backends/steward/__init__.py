"""What serves a place from within: standard library only, sent in as text, run by the place's own Python.

It answers requests (JSON in, JSON out, bytes as base64): run a program or a job, write, read, pack or replace the
tree of `/work`. `server` is the first process of a place and forks for each request; `requests.once` is started
anew for each, where a container engine or a service can only start programs. What it runs is its child, in a
session of its own, and holds none of its descriptors; that child cannot trace it or look into it, although both
have one uid. What it answers is still only what a place says: the trainer takes bytes from it, never a number.
"""
