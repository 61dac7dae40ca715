// Package scenarios tests driver-entrypoint on real kernels: numbered scenarios (NN_*_test.go),
// each in a QEMU guest with a real Debian kernel, the real NVIDIA modules, real driver images and
// fake GPUs. It holds tests only, which are skipped with a reason unless DRIVER_E2E=1 (make lab).
//
// A compile takes 25 times longer in a guest than natively. So modules are compiled once for each
// image and kernel, by the image's own `nvidia-driver compile` in a chroot, and put into the
// guest's module cache. make lab-compile runs a whole compile in a guest.
package scenarios
