"""Money going out: held when it is asked for, sent once, and never called failed on a guess."""
