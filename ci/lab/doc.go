// Package lab runs real Debian kernels in QEMU, with fake GPUs (package fakegpu) that NVIDIA's real kernel modules accept,
// and driver containers in them that are set up as kubelet, containerd and runc set up a privileged pod. Tests drive it.
//
// A guest starts directly, or through UEFI with Secure Boot (Firmware, package uefi), up to Debian's own signed chain and a person at
// the console.
//
// It emulates in software, so it needs no /dev/kvm; a guest is up in some seconds. Everything that takes long is kept in a
// cache: kernels, disks made of images. Guests share nothing that one of them can write. No graphics adapter ever
// initialises: what lies behind a working GPU cannot be tested here.
//
// Its functions end the test when something goes wrong, and every wait has a limit.
package lab
