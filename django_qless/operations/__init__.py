"""Operations that the admin, the commands and Python code share: queries and changes."""
