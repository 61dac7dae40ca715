// Package runfile generates .run archives with the header layout, manifest and payload of NVIDIA's, for tests: real
// archives cannot be had everywhere, the contents of real drivers can, from distributions' packages.
//
// [FromTree] takes a driver that lies in a directory the way an image holds it, gives every file its manifest line with
// [Classify], and yields an [Archive]; [Archive.WriteFile] writes it. What is generated is not a copy of any archive of
// NVIDIA's: the stub is this package's own and refuses to run, and the line order is not theirs.
package runfile
