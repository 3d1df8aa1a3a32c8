"""What callers do, a module for each group of calls: jobs, batches, schedules, settings …"""
