"""A small interactive program that asks before it deletes; it does not speak ACP."""

import os
import sys

if not sys.stdin.isatty():
    sys.exit("this program needs a terminal")
size = os.get_terminal_size
while True:
    try:
        line = input("you> ")
        if line == "delete":
            print("About to delete everything.")
            print("deleted" if input("Really delete? [y/N] ") == "y" else "kept")
        elif line == "size":
            print("{}x{}".format(*size()))
        elif line == "wait":
            print("waiting", flush=True)
            sys.stdin.readline()
        elif line == "flood":
            for number in range(20_000):
                print(f"line {number}")
        elif line.startswith("quit"):
            sys.exit(int(line[4:] or 0))
        else:
            print(f"you said {line}")
    except KeyboardInterrupt:
        print("interrupted")
    except EOFError:
        break
