// Package rpm reads rpm repositories without rpm, dnf, yum or zypper: the sources that a base image
// is configured with, their repomd.xml and its signature, and their lists of packages, modules and
// files. Package repoconf reads the configuration of sources, and solve finds the packages that
// must be added to meet a request.
//
// There are two chains of trust. If a repository signs its repomd.xml and the source says to check
// that (repo_gpgcheck, and zypper always), then a key of the source signs repomd.xml, repomd.xml
// names the sha256 or sha512 of each list, and each list names the digests of its packages.
// Otherwise, as with RHEL and its derivatives, nothing vouches for the lists: each Package then
// carries in Keys the fingerprints of the source's keys, and the code that downloads the package
// must verify that the package itself is signed by one of them. A source that checks neither is
// refused. MD5 and SHA-1 digests are ignored.
//
// The package does not download, verify or unpack packages, run their scripts, remove anything,
// import keys from the network, look at Recommends, or read delta packages, groups and advisories.
package rpm
