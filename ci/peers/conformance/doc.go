// Package conformance checks a driver root with programs of other projects: NVIDIA's container toolkit, its
// library nvcdi, its container runtime with Debian's runc, and the commands that the GPU operator runs in the
// image of a driver.
//
// Prepare builds those programs (module clients, which keeps their dependencies out of the project's own) and
// puts them into a small Debian system, the consumer. Run lets them examine one root, each time in a private
// world (package inside). The folder that Prepare returns can be copied into a guest: driver-conformance in
// it is static, and needs only a kernel with mount namespaces, tmpfs, devtmpfs or device nodes, and cgroup2.
//
// The package is for the tests of the real tier: everything needs root, Debian's runc and umoci, and a base
// image from ci/base.
package conformance
