// Package headers fetches the headers of the node's kernel from the package repositories of the image's own system, for
// images that lack them on hosts that lack them too.
//
// Configuration is what the system's own tools would read. For apt: the image's sources with what was mounted beside them,
// keyrings, proxies of apt.conf and of the environment, logins of auth.conf, certificates. For yum, dnf and zypper: .repo
// files with their keys, proxies, certificates and logins, variables, and a subscription as container runtimes mount it; and because
// the repositories of a minor version drop the kernels of the one before, those of the kernel's own minor version first
// (see distros.RPM). Everything is verified from a key of the image down to the digest of each package, or by the signature
// of the package itself. A repository that cannot be used is left out with a line in the log; only when the headers are in none
// of the others it is a reason to fail.
//
// It takes header packages and nothing else (deb.go and rpm.go, with what is below them, differ in how they find them). What
// they depend on beyond other header packages is compilers, libraries and, in Debian from 6.12 on, the kernel image itself: 100 MB that no compilation reads, or an upgrade of a library that
// every program of the image uses. The image's compiler and libraries stay as they were built and tested; a tool of the
// headers that cannot run on them is an error before anything is downloaded.
//
// Packages are data here: no script runs, nothing is entered in dpkg's or rpm's database. The tree goes away with the container, a
// package recorded without its documentation and its dependencies would be a lie, and FindHeaders of kmod/kbuild
// looks at files, not at records.
//
// It does not look for headers on the host or in the image, choose a compiler or compile: that is kmod/kbuild.
package headers
