// Package vgpu knows what a machine with vGPUs needs of the guest's driver: the licence daemons with their
// files.
//
// It reads the files of a licence, and says what is wrong with them. It does not supervise the daemons, ask
// the driver or a licence server, or verify signatures of tokens: only the licence server has the key. It does
// not compare the driver with the host's: choose an image that fits.
package vgpu
