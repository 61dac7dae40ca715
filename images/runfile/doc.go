// Package runfile reads NVIDIA's self-extracting driver archives (NVIDIA-Linux-*.run) and the .manifest inside them,
// without ever executing anything of theirs.
//
// An archive is a shell stub, an optional embedded decompressor, and one compressed tar that reaches to the end of the
// file. [Open] parses the variables at the head of the stub with a strict parser, and [Reader.Extract] unpacks the tar
// in one streaming pass while it computes the CRC and the MD5 that the head announces and the SHA-256 of the whole. The
// first two only detect damage. What makes an archive trustworthy is the SHA-256, which the caller compares with a value
// that it had before: Extract hands out content before that value is known, so keep what it gave aside until then.
//
// [ParseManifest] reads the list of what goes where, and [Manifest.Install] turns it into paths for a target system.
//
// The package does not write files, does not look at the machine it runs on, does not verify digests against anything
// but the archive's own head, and does not make soname links that the manifest lacks: that is up to its caller.
package runfile
