package matrix

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
)

// armour begins a key that is written out.
const armour = "-----BEGIN"

// system checks that kernels rise, and that the repositories and their settings are of the system's
// kind of packages.
func (d *decoder) system(s *System, n *yaml.Node) {
	for i, k := range s.Kernels {
		if i > 0 && k != "" && s.Kernels[i-1] != "" &&
			driverinfo.CompareKernels(s.Kernels[i-1], k) >= 0 {
			d.errorf(
				child(n, "kernels").Content[i],
				"kernel %s after %s: list the kernels from the lowest to the highest",
				k,
				s.Kernels[i-1],
			)
		}
	}
	if s.ReplaceRepositories && len(s.Repositories) == 0 {
		d.errorf(
			child(n, "only-these-repositories"),
			"only-these-repositories without repositories: there would be none",
		)
	}
	system, err := distros.Lookup(s.ID)
	if err != nil {
		return // reported already
	}
	manager := distros.Userland(system).PackageManager()
	if len(s.Components) > 0 && manager != "apt" {
		d.errorf(
			n,
			"system %s has components: repositories of %s packages have none",
			s.ID,
			manager,
		)
	}
	for i, r := range s.Repositories {
		at := child(n, "repositories").Content[i]
		switch {
		case manager == "apt" && r.BaseURLs != nil:
			d.errorf(
				at,
				"a repository of %s has baseurl, but its packages are .deb: give uris, suites and components",
				s.ID,
			)
		case manager == "rpm" && r.URIs != nil:
			d.errorf(
				at,
				"a repository of %s has uris, but its packages are .rpm: give baseurl",
				s.ID,
			)
		}
	}
}

// repository checks that the keys are those of one kind of repository, and reads the key. Without a
// key nothing could be verified, so a key is mandatory.
func (d *decoder) repository(r *Repository, n *yaml.Node) {
	has := func(name string) bool { return child(n, name) != n }
	rpm := has("baseurl")
	kind := "uris"
	required := []string{"uris", "suites", "components", "key"}
	foreigners := []string{"gpgkey"}
	if rpm {
		kind = "baseurl"
		required = nil
		foreigners = []string{"uris", "suites", "components"}
	}
	for _, name := range required {
		if !has(name) {
			d.errorf(n, "a repository has no key %s", name)
		}
	}
	for _, name := range slices.DeleteFunc(foreigners, func(name string) bool { return !has(name) }) {
		d.errorf(
			n,
			"a repository has both %s and %s: uris, suites, components and key are for .deb packages, "+
				"baseurl with gpgkey or key for .rpm packages",
			kind,
			name,
		)
	}
	if rpm && has("gpgkey") == has("key") {
		d.errorf(n, "a repository with baseurl needs either gpgkey or key")
	}
	if r.Key == "" || strings.Contains(r.Key, armour) || d.files.Key == nil {
		return
	}
	text, err := d.files.Key(r.Key)
	if err != nil {
		d.errorf(child(n, "key"), "key %s cannot be read: %v", quoted(r.Key), err)
	}
	r.Key = text
}
