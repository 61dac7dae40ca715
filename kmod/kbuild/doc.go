// Package kbuild makes NVIDIA's kernel modules for one kernel from the driver's own sources, and keeps what it made.
//
// It finds the headers of a kernel (FindHeaders), the compiler that the kernel was built with (FindCompiler) and how many
// jobs the container can afford (Jobs), compiles a copy of the sources with the driver's own Makefile (Compile), and stores
// whole sets of modules under a key of everything that went in (Key, Cache).
//
// It does not load, sign or download anything, decides nothing about a node, and never writes into the sources or the
// headers. Programs that it starts are make, the compiler and strip, all with a fixed environment: equal inputs at an equal
// scratch path give equal modules, byte for byte.
package kbuild
