// Package companions brings up the kernel modules that stand beside the driver's own ones: nvidia-fs for
// GPUDirect Storage, gdrdrv for GDRCopy, and nvidia-peermem, which waits for Mellanox's driver.
//
// A companion is never a reason to fail: the driver serves without it, and the status says why it is missing.
// The package neither makes modules nor device files, and leaves modules alone that other programs loaded.
package companions
