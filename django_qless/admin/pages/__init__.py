"""What shows something: a module for each entry of the menu."""
