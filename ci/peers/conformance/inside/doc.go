// Package inside lets programs of other projects examine a driver root: NVIDIA's nvidia-ctk, its library
// nvcdi with a mock of NVML, its container runtime with Debian's runc, and the first checks of the GPU
// operator's validator.
//
// It runs on any Linux that has mount and pid namespaces and a tmpfs: on a builder without a GPU as well as
// in a guest with the real modules loaded. All of it happens in a world of its own (function world): a chroot
// into a small Debian system that holds the programs, with a private /dev, /run and /tmp, because NVML makes
// device nodes and the runtime writes state. Package conformance prepares that system, not this package.
// Nothing in the driver root is changed.
//
// What the programs must find is computed from the files of the root itself (expect), never from a recorded
// list, so that the same check serves every driver version.
package inside
