// Package rpmrepo makes real rpm repositories, and base images of the systems that use them, for tests: where no rpm
// repository can be reached, Debian's packages can, and the programs in them are as real as any.
//
// [Make] repackages Debian's C library, shell, compiler and kernel headers with rpmbuild, under the names and in the places that
// they have in a system of the rpm family, signs the packages with a key made for the purpose, publishes them with createrepo_c
// in that system's style, and installs a base of them with rpm itself. [Repository.Handler] serves the result under the names
// of hosts that do not exist, so it is used as a proxy. All of it is kept in the user's cache under the digest of what went in.
//
// What it makes is not a copy of anybody's distribution: versions are Debian's, and no package has scripts. It needs Debian 12
// with rpm, createrepo-c, gpg, sqlite3 and db5.3-util, a list of packages that apt has fetched, and root. It imports nothing
// of the product, which is tested with it.
package rpmrepo
