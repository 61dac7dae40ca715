// Package kbuild compiles NVIDIA's kernel modules for one kernel from the driver's own sources, and stores
// the result.
//
// It finds the compiler that built the kernel (FindCompiler) and the number of jobs that the container can
// afford (Jobs), compiles a copy of the sources with the driver's own Makefile (Compile), and stores whole
// sets of modules under a key of all inputs (Key, Cache). Package buildtree finds the headers.
//
// It does not load or download anything, makes no decision about a node, and never writes into the sources or
// the headers. It starts make, the compiler and strip, all with a fixed environment: equal inputs at an equal
// scratch path give equal modules, byte for byte.
package kbuild
