// Package scenarios is the proof of driver-entrypoint: numbered scenarios (NN_*_test.go), each in a QEMU guest with a real Debian
// kernel, the real NVIDIA modules, real driver images and fake GPUs. It holds tests only, which skip with a reason unless
// DRIVER_E2E=1 (make lab).
//
// A compile takes 25 times longer in a guest than natively, so modules are compiled once per image and kernel, by the image's own
// `nvidia-driver compile` in a chroot, and put into the guest's module cache. A whole compile in a guest is make lab-compile.
package scenarios
