// Package inside asks programs that are not ours what they make of a driver root: NVIDIA's nvidia-ctk, its library nvcdi with
// a mock of NVML, its container runtime with Debian's runc, and what the GPU operator's validator does by hand.
//
// It runs on any Linux that has mount and pid namespaces and a tmpfs: on a builder without a GPU as well as in a guest where
// the real modules are loaded. All of it happens in a world of its own (World): a chroot into a small Debian system that
// holds the programs, with a /dev, /run and /tmp that nobody else sees, because NVML makes device nodes and the runtime
// writes state. It does not prepare that system: package conformance does. It changes nothing in the driver root.
//
// What the programs must find is computed from the files of the root itself (Expect), never from a recorded list, so that
// the same check serves every driver version.
package inside
