"""Components that several pages share: tables, charts, form fields, job details."""
