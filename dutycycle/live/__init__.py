"""``dutycycle up``: the processes on this machine and the live view of them."""
