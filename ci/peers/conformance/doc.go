// Package conformance checks a driver root with programs of other projects: NVIDIA's container
// toolkit, its library nvcdi with a mock of NVML, its container runtime with Debian's runc, the
// first checks of the GPU operator's validator, and the commands that the operator runs in the
// image of a driver.
//
// Prepare builds those programs (module clients, which keeps their dependencies out of the
// project's own) and puts them into a small Debian system, the consumer. Run lets them examine one
// root, each time in a world of its own (function world): a chroot into the consumer with a private
// /dev, /run and /tmp, because NVML makes device nodes and the runtime writes state. Nothing in the
// driver root is changed.
//
// What the programs must find is computed from the files of the root itself (expect), never from a
// recorded list, so that the same check serves every driver version.
//
// The package is for the tests of the real tier, on a machine without a loaded driver: everything
// needs root, Debian's runc, and a base image from ci/base.
package conformance
