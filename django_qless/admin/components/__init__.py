"""Parts that several pages share: tables, charts, form fields, texts of jobs."""
