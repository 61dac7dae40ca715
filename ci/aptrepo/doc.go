// Package aptrepo makes signed apt repositories, and a base image that uses them, which say that they are Ubuntu's, for tests: where
// Ubuntu's cannot be reached, Debian's packages can, and differ in names.
//
// [Make] takes Debian's compiler and what it needs, gives Ubuntu's names to what has other ones there, splits real kernel headers into a
// shared package and one of a flavour as Ubuntu does, adds kernels of other flavours and series without content, and publishes it all
// with apt-ftparchive and gpg: suites noble and noble-updates on one host, noble-security on another. The base is a Debian base whose
// os-release, sources and keys are changed by a layer on top.
//
// What it makes is not a copy of Ubuntu. It needs Debian 12 with apt-utils and gpg, a list of packages that apt has fetched, and root.
// It imports nothing of the product, which is tested with it.
package aptrepo
