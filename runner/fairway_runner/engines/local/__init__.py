"""The engine `local`: this machine's own MPI, watched over by a detached supervisor."""
