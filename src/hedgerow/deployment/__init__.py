"""Deployment across organisations: server, clients, ledgers; nothing is released twice."""
