// Package gpu asks a machine with real GPUs, whose driver is loaded already, whether the project's programs
// see there what NVIDIA's nvidia-smi sees: driver-probe, the PCI bus, device files and preflight.
//
// It changes nothing on the machine: it loads and unloads no module, resets no GPU, switches no MIG mode, and
// writes only below a temporary folder. Such machines are often containers, so that it expects neither Go,
// nor network, nor a writable /sys, and finds the driver's libraries also in /usr/local/nvidia.
//
// A question that cannot be asked on a machine is an answer of its own, with the reason.
package gpu
