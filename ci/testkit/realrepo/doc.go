// Package realrepo makes packages, repositories and base images for tests with the distributions'
// own programs: rpmbuild, rpmsign, createrepo_c, rpm and gpg. It imitates no format. Package
// repotest writes repositories in Go, which may be wrong in one detail.
//
// [Build], [Repository] and [Root] make small packages, repositories and systems of the rpm family
// from a description. [Rocky] makes a whole system, and keeps it in the user's cache: where the
// repositories of Rocky Linux cannot be reached, Debian's packages can, and their programs are as
// real as others. The result is no copy of it: versions are Debian's, and no package has scripts.
//
// A program that fails fails the test. The package needs Debian 12, what ci/e2e/setup installs, and
// root. It imports nothing of the product, because it tests the product.
package realrepo
