// Package makeself generates .run archives with the header layout, manifest and payload of NVIDIA's, for
// tests. Real archives are not available everywhere. The contents of real drivers are, in distributions'
// packages.
//
// [FromTree] takes a driver in a directory, laid out as in an image, gives every file its manifest line with
// [Classify], and returns an [Archive]; [Archive.WriteFile] writes it. The result is not a copy of any
// archive of NVIDIA's: the stub is this package's own and refuses to run, and the order of the lines is
// different.
package makeself
