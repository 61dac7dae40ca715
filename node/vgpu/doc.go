// Package vgpu knows what a machine with vGPUs needs of the guest's driver: which host drivers its GPUs name,
// whether the guest driver fits them, and the licence daemons with their files.
//
// It reads configuration spaces, a catalogue and the files of a licence, and says what is wrong with them. It
// does not supervise the daemons, ask the driver or a licence server, or verify signatures of tokens: only
// the licence server has the key.
package vgpu
