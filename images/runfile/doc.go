// Package runfile reads NVIDIA's self-extracting driver archives (NVIDIA-Linux-*.run) and the .manifest
// inside them. It never executes any part of them.
//
// An archive is a shell stub, an optional embedded decompressor, and one compressed tar up to the end of the
// file. [Open] parses the variables at the head of the stub with a strict parser. [Reader.Extract] unpacks
// the tar in one streaming pass; it computes the CRC and the MD5 that the head announces, and the SHA-256 of
// the whole file. CRC and MD5 only detect damage. The SHA-256 makes an archive trustworthy: the caller
// compares it with a value that it already had. Extract delivers content before the SHA-256 is known, so the
// caller must keep that content apart until then.
//
// [ParseManifest] reads the list of files and their destinations, and [Manifest.Install] turns it into paths
// for a target system.
//
// The package does not write files, does not examine the machine that it runs on, does not verify digests
// against anything except the archive's own head, and does not make soname links that the manifest lacks:
// those are tasks of its caller.
package runfile
