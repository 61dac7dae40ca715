// Package repoconf reads how a system is configured to get its packages: the .repo files of yum,
// dnf and zypper with their variables and main sections, the sources of a subscription, and the
// state of modules. It also makes the HTTP clients with the certificates, the proxy and the
// credentials that a source names.
//
// It reads a root file system and returns Sources. It does not look at what a repository serves:
// see package rpm.
package repoconf
