package aptrepo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/ci/testkit/gpg"
	"github.com/driver-container/driver-container/ci/testkit/rpmrepo"
)

// Suites of Ubuntu 24.04.
const (
	release   = "noble"
	updates   = "noble-updates"
	backports = "noble-backports"
	security  = "noble-security"
)

const (
	archiveHost  = "archive.ubuntu.example"
	securityHost = "security.ubuntu.example"
)

// suites returns the suites of each host.
func suites() map[string][]string {
	return map[string][]string{archiveHost: {release, updates, backports}, securityHost: {security}}
}

// publish moves the packages in pool/SUITE to www/HOST/ubuntu and indexes them. All packages are in main; the
// other components are empty.
func publish(ctx context.Context, key *gpg.Key, pool, www string) error {
	for host, names := range suites() {
		root := filepath.Join(www, host, "ubuntu")
		if err := os.MkdirAll(filepath.Join(root, "pool/main"), 0o755); err != nil {
			return err
		}
		for _, suite := range names {
			if err := os.Rename(filepath.Join(pool, suite), filepath.Join(root, "pool/main", suite)); err != nil {
				return err
			}
			if err := index(ctx, key, root, suite); err != nil {
				return fmt.Errorf("publish %s: %w", suite, err)
			}
		}
	}
	return nil
}

// index writes the lists of a suite, and InRelease.
func index(ctx context.Context, key *gpg.Key, root, suite string) error {
	components := []string{"main", "restricted", "universe", "multiverse"}
	for _, component := range components {
		dir := filepath.Join(root, "dists", suite, component, "binary-amd64")
		text := ""
		if component == "main" {
			var err error
			if text, err = rpmrepo.Run(ctx, root, "apt-ftparchive", "packages", "pool/main/"+suite); err != nil {
				return err
			}
		}
		if err := rpmrepo.WriteFile(filepath.Join(dir, "Packages"), text); err != nil {
			return err
		}
		for _, compress := range [][]string{{"gzip", "-9nk"}, {"xz", "-k"}} {
			if _, err := rpmrepo.Run(ctx, dir, compress[0], compress[1], "Packages"); err != nil {
				return err
			}
		}
	}
	dist := filepath.Join(root, "dists", suite)
	var args []string
	for _, field := range []string{"Origin=Ubuntu", "Label=Ubuntu", "Suite=" + suite, "Version=24.04", "Codename=noble", "Architectures=amd64", "Components=" + strings.Join(components, " ")} {
		args = append(args, "-o", "APT::FTPArchive::Release::"+field)
	}
	text, err := rpmrepo.Run(ctx, root, "apt-ftparchive", slices.Concat(args, []string{"release", "dists/" + suite})...)
	if err != nil {
		return err
	}
	// like Ubuntu's archive: Release names plain and compressed lists, and only the compressed ones exist
	for _, component := range components {
		if err := os.Remove(filepath.Join(dist, component, "binary-amd64", "Packages")); err != nil {
			return err
		}
	}
	if err := rpmrepo.WriteFile(filepath.Join(dist, "Release"), text); err != nil {
		return err
	}
	return key.Clear(ctx, filepath.Join(dist, "Release"), filepath.Join(dist, "InRelease"))
}
