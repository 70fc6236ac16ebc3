"""What every test may count on: Ctrl-C is heard, also where the tests were started in the background."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
