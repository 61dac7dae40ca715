// Package rpm reads rpm repositories without rpm, dnf, yum or zypper: the sources a base image is configured with, their
// repomd.xml and its signature, and their lists of packages, modules and files. Package repoconf reads the configuration of
// sources, repodata the formats of the lists, and solve finds the packages that must be added so that a request is met.
//
// Trust runs one way, and there are two of them. Where a repository signs its repomd.xml and the source says to check that
// (repo_gpgcheck, and zypper always), a key of the source signs repomd.xml, that names the sha256 or sha512 of each list, and
// the list names the digest of each package. Where it does not, as with RHEL and all that follow it, nothing vouches for the
// lists: then each Package carries in Keys the fingerprints of the source's keys, and whoever downloads it must find the
// package itself signed by one of them. A source that checks neither is refused. MD5 and SHA-1 count as no digest at all.
//
// It does not download, verify or unpack packages, run their scripts, remove anything, import keys from the network, look
// at Recommends, or read delta packages, groups and advisories.
package rpm
