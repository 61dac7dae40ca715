package headers

import (
	"crypto/tls"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/rpm"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// fakeRPMIndex is an index: "name version.arch: provides | requires", both with commas.
type fakeRPMIndex []*rpm.Package

func newFakeRPMIndex(t testing.TB, lines ...string) fakeRPMIndex {
	t.Helper()
	var out fakeRPMIndex
	for _, line := range lines {
		head, rest, _ := strings.Cut(line, ": ")
		provides, requires, _ := strings.Cut(rest, "|")
		name, version, _ := strings.Cut(head, " ")
		arch := version[strings.LastIndexByte(version, '.')+1:]
		version = strings.TrimSuffix(version, "."+arch)
		evr := require.Value(rpmfile.ParseEVR(version))(t)
		p := &rpm.Package{Package: distros.Package{Name: name, Version: version, Arch: arch}, Metadata: rpmfile.Metadata{Name: name, EVR: evr, Arch: arch}}
		for text := range strings.SplitSeq(provides+","+name+" = "+version, ",") {
			if text = strings.TrimSpace(text); text != "" {
				r := require.Value(rpmfile.ParseRequirement(text))(t)
				p.Metadata.Provides = append(p.Metadata.Provides, r.Relation)
			}
		}
		for text := range strings.SplitSeq(requires, ",") {
			if text = strings.TrimSpace(text); text != "" {
				r := require.Value(rpmfile.ParseRequirement(text))(t)
				p.Metadata.Requires = append(p.Metadata.Requires, r)
			}
		}
		out = append(out, p)
	}
	return out
}

func (r fakeRPMIndex) WhatProvides(want rpmfile.Relation) []*rpm.Package {
	var out []*rpm.Package
	for _, p := range r {
		if provides(p, want) {
			out = append(out, p)
		}
	}
	return out
}

func rpmManagerOf(t testing.TB, system, release string) *rpmManager {
	t.Helper()
	d := require.Value(distros.Lookup(system))(t)
	return &rpmManager{fetcher: &fetcher{Options: Options{Release: release}, arch: distros.Arch{Kernel: "x86_64"}}, distro: d.(distros.RPM)}
}

func TestRPMClosure(t *testing.T) {
	t.Parallel()
	el := newFakeRPMIndex(t,
		"kernel-devel 5.14.0-427.13.1.el9_4.i686: kernel-devel-uname-r = 5.14.0-427.13.1.el9_4.x86_64",
		"kernel-devel 5.14.0-427.13.1.el9_4.x86_64: kernel-devel-uname-r = 5.14.0-427.13.1.el9_4.x86_64 | gcc, (make if gcc), elfutils-libelf-devel",
		"kernel-devel-matched 5.14.0-427.13.1.el9_4.x86_64: | kernel-core = 5.14.0-427.13.1.el9_4, kernel-devel = 5.14.0-427.13.1.el9_4",
		"kernel-rt-devel 5.14.0-427.13.1.el9_4.x86_64: kernel-devel-uname-r = 5.14.0-427.13.1.el9_4.x86_64+rt",
		"kernel-rt-devel 4.18.0-553.rt7.342.el8_10.x86_64: kernel-rt-devel-uname-r = 4.18.0-553.rt7.342.el8_10.x86_64",
		"kernel-uek-devel 5.15.0-206.153.7.el9uek.x86_64: kernel-uek-devel-uname-r = 5.15.0-206.153.7.el9uek.x86_64",
		"kmod-other 1-1.x86_64: kernel-devel-uname-r = 5.14.0-1.el9.x86_64",
		"kernel-devel 5.14.0-2.el9.x86_64: kernel-devel-uname-r = 5.14.0-2.el9.x86_64 | kernel-devel-common = 5.14.0-2.el9",
	)
	suse := newFakeRPMIndex(t,
		"kernel-azure-devel 6.4.0-150600.8.17.1.x86_64: kernel-azure-devel = 6.4.0-150600.8.17 | kernel-devel-azure = 6.4.0-150600.8.17, libelf-devel",
		"kernel-devel-azure 6.4.0-150600.8.17.1.noarch: kernel-devel-azure = 6.4.0-150600.8.17 | kernel-macros",
		"kernel-macros 6.4.0-150600.8.17.1.noarch: ",
	)
	azure := newFakeRPMIndex(t,
		"kernel-devel 6.6.64.2-7.azl3.x86_64: | kernel = 6.6.64.2-7.azl3, gawk",
		"kernel-hwe-devel 6.18.31.1-1.azl3.x86_64: | kernel-hwe = 6.18.31.1-1.azl3, gawk",
	)
	for _, test := range []struct {
		name, system, release string
		x                     fakeRPMIndex
		want, err             string
	}{
		{"red hat", "rocky9", "5.14.0-427.13.1.el9_4.x86_64", el, "kernel-devel 5.14.0-427.13.1.el9_4", ""},
		{"real time", "rocky9", "5.14.0-427.13.1.el9_4.x86_64+rt", el, "kernel-rt-devel 5.14.0-427.13.1.el9_4", ""},
		{"real time of el8", "rhel8", "4.18.0-553.rt7.342.el8_10.x86_64", el, "kernel-rt-devel 4.18.0-553.rt7.342.el8_10", ""},
		{"oracle", "ol9", "5.15.0-206.153.7.el9uek.x86_64", el, "kernel-uek-devel 5.15.0-206.153.7.el9uek", ""},
		{"suse", "sles15.6", "6.4.0-150600.8.17-azure", suse, "kernel-devel-azure 6.4.0-150600.8.17.1,kernel-azure-devel 6.4.0-150600.8.17.1", ""},
		{"azure", "azurelinux3.0", "6.18.31.1-1.azl3", azure, "kernel-hwe-devel 6.18.31.1-1.azl3", ""},
		{"half a repository", "rocky9", "5.14.0-2.el9.x86_64", el, "", "needs kernel-devel-common = 5.14.0-2.el9, which the repositories do not have"},
		{"a package of modules that says it", "rocky9", "5.14.0-1.el9.x86_64", el, "", ""},
		{"none", "rocky9", "5.14.0-3.el9.x86_64", el, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := rpmManagerOf(t, test.system, test.release)
			p, err := f.plan(test.x, f.distro.Headers(test.release), &UnavailableError{Release: test.release})
			checkPlan(t, p, err, test.want, test.err)
		})
	}
	assert.Errorf(t, assert.Err(rpmManagerOf(t, "rocky9", "5.14.0").plan(nil, []string{"(a"}, &UnavailableError{})), "a broken requirement is none")
}

// A subscription as the container runtime mounts it: certificates of the client and of the server.
func TestSubscription(t *testing.T) {
	t.Parallel()
	const release = "5.14.0-427.13.1.el9_4.x86_64"
	a := newArchive(t)
	a.rpmRepository("/content/dist/rhel9/9.4/x86_64/appstream/os", signer(), kernelDevel(release))
	ca := testcert.Authority("entitlement")
	client := ca.Client("node")
	a.server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(), MinVersion: tls.VersionTLS12}
	a.server.StartTLS()
	i := newRPMImage(t, "")
	i.write("etc/os-release", "ID=\"rhel\"\nVERSION_ID=\"9.6\"\n")
	i.write("run/secrets/redhat.repo", "[rhel-9-for-x86_64-appstream-rpms]\nname=Red Hat\nbaseurl="+a.server.URL+"/content/dist/rhel9/$releasever/$basearch/appstream/os\n"+
		"enabled=1\ngpgcheck=1\nrepo_gpgcheck=1\ngpgkey=file:///etc/pki/rpm-gpg/RPM-GPG-KEY-test\nsslverify=1\nsslcacert=/etc/rhsm/ca/redhat-uep.pem\n"+
		"sslclientkey=/etc/pki/entitlement-host/123-key.pem\nsslclientcert=/etc/pki/entitlement-host/123.pem\n")
	i.write("run/secrets/rhsm/ca/redhat-uep.pem", testcert.PEM("CERTIFICATE", a.server.Certificate().Raw))
	i.write("run/secrets/etc-pki-entitlement/123.pem", client.CertPEM())
	i.write("run/secrets/etc-pki-entitlement/123-key.pem", client.KeyPEM())
	got, err := i.fetchRelease(release)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err, i.said.String())
	}
}
