// Package headers fetches the headers of the node's kernel from the package repositories of the
// image's own system. It is for nodes on which neither the image nor the host has the headers.
//
// It reads the configuration that the system's own tools would read. For apt: the image's sources
// and mounted ones, keyrings, proxies of apt.conf and of the environment, logins of auth.conf,
// certificates. For yum, dnf and zypper: .repo files with their keys, proxies, certificates and
// logins, variables, and a subscription as container runtimes mount it. The repositories of a minor
// version drop the kernels of the one before, so those of the kernel's own minor version are tried
// first (see distros.RPM). Everything is verified, either from a key of the image down to the
// digest of each package, or by the signature of the package itself. A repository that cannot be
// used is left out with a line in the log; that is an error only when no other repository has the
// headers.
//
// It fetches only header packages. Their other dependencies are compilers, libraries and, in Debian
// from 6.12 on, the kernel image itself: 100 MB that no compilation reads, or an upgrade of a
// library that every program of the image uses. The image's compiler and libraries stay as they
// were built and tested; tools of the headers that need a newer C library are an error before
// anything is downloaded.
//
// It does not start the image's package manager, because that gives less: dnf and zypper install
// with all dependencies, which a mirror of headers does not have, and import keys into the image; dnf
// also takes keys from the web. zypper has no option for a certificate authority. apt-get reads no
// networks in NO_PROXY, and before 1.5 (Ubuntu 16.04) neither https nor auth.conf.d, before 2.3.10
// no keys within sources.
//
// Packages are only unpacked, into a folder of their own: no script runs, and nothing of the image
// changes.
//
// The package does not look for headers on the host or in the image, choose a compiler or compile:
// kmod/kbuild does that.
package headers
