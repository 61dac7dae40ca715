// Package rpmrepo makes real rpm repositories, and base images of the systems that use them, for tests. Where
// no rpm repository can be reached, Debian's packages can, and their programs are as real as others.
//
// [Make] repackages Debian's C library, shell, compiler and kernel headers with rpmbuild, under the names and
// at the paths of a system of the rpm family. It signs the packages with a key of its own, publishes them
// with createrepo_c in that system's style, and installs a base from them with rpm itself.
// [Repository.Handler] serves the result under the names of hosts that do not exist, so clients use it as a
// proxy. The user's cache keeps all results under the digest of their inputs.
//
// The result is not a copy of any distribution: versions are Debian's, and no package has scripts. The
// package needs Debian 12 with rpm, createrepo-c, gpg, sqlite3 and db5.3-util, a list of packages that apt
// has fetched, and root. It imports nothing of the product, because it tests the product.
package rpmrepo
