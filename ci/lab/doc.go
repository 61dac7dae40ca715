// Package lab runs real Debian kernels in QEMU, with fake GPUs (package gpu) that NVIDIA's real
// kernel modules accept. Driver containers in the guests are runc's, set up as kubelet and
// containerd set up a privileged pod. Tests drive the package.
//
// A guest starts directly, or through UEFI with Secure Boot (Firmware), up to Debian's own signed
// boot chain and a test that types at the console. Its process 1 is the script init; package agent
// starts its processes.
//
// The lab emulates in software, so it needs no /dev/kvm; a guest boots in some seconds. A cache
// keeps everything that takes long to make: kernels, disks made of images. Guests share nothing
// that one of them can write. No graphics adapter ever initialises: code that needs a working GPU
// cannot be tested here.
//
// The package's functions end the test when an error occurs, and every wait has a limit.
package lab
