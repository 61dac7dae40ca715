// Package aptrepo makes signed apt repositories, and a base image that uses them, for tests; both claim to be
// Ubuntu's. Where Ubuntu's repositories cannot be reached, Debian's packages can, and differ in names.
//
// [Make] takes Debian's compiler and its dependencies, gives packages Ubuntu's names if they differ, splits
// real kernel headers into a shared package and one of a flavour as Ubuntu does, and adds kernels of other
// flavours and series without content. It publishes everything with apt-ftparchive and gpg: suites noble and
// noble-updates on one host, noble-security on another. The base is a Debian base with a layer on top that
// changes os-release, sources and keys.
//
// The result is not a copy of Ubuntu. The package needs Debian 12 with apt-utils and gpg, a list of packages
// that apt has fetched, and root. It imports nothing of the product, because it tests the product.
package aptrepo
