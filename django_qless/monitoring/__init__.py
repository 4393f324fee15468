"""What machines read: metrics, health, status and lag; timings and traces of jobs.

Nothing of it is imported, or served, unless a project asks for it: see `urls`.
"""
