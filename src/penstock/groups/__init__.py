"""The calls of the client, with a module for each group: jobs, batches, schedules, settings …"""
