// Package kmod lets kmod's programs judge what this project reads and writes about kernel modules:
// modinfo, depmod and modprobe on all modules of a Debian kernel. It has tests only.
package kmod
