# shellcheck shell=bash
# A cluster is a folder with an epmd, which its nodes 1, 2, 3 share, and a folder for each of these.
