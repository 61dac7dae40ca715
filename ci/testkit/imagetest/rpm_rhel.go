package imagetest

import (
	"crypto/tls"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing/fstest"

	"github.com/driver-container/driver-container/ci/testkit/testcert"
)

const rhelFiles = `
	etc/os-release = ID="rhel"\nVERSION_ID="9.8"
	etc/dnf/dnf.conf = [main]\ngpgcheck=1
	etc/yum.repos.d/ubi.repo = [ubi-9-baseos-rpms]\nname=UBI\nbaseurl=$URL/rhel9/\ngpgkey=file:///$KEY
`

// rhel is RHEL 9: the repositories of its base have the compiler and no kernels.
func rhel(w *World) *RPMSystem {
	s := w.newRPMSystem("rhel9", "sqlite", ".el9", rhelFiles)
	s.Row = "    kernels: [5.14]\n"
	s.Colour = 3
	s.Packages = append(s.Packages, documented(perl)...)
	return s
}

// rhel10Files have the repository with signed modules switched off, as a subscription brings it.
const rhel10Files = `
	etc/os-release = ID="rhel"\nVERSION_ID="10.1"
	etc/dnf/dnf.conf = [main]\ngpgcheck=1
	etc/yum.repos.d/ubi.repo = [ubi-10-baseos-rpms]\nname=UBI\nbaseurl=$URL/rhel10/\ngpgkey=file:///$KEY\n\n[rhel-10-for-x86_64-extensions-rpms]\nname=Red Hat\nbaseurl=$URL/extensions/\nenabled=0\ngpgkey=file:///$KEY
`

// rhel10 is RHEL 10: the repositories of its base have the compiler and no kernels.
func rhel10(w *World) *RPMSystem {
	s := w.newRPMSystem("rhel10", "sqlite", ".el10", rhel10Files)
	s.Row = "    kernels: [6.12]\n"
	s.Colour = 3
	s.Packages = append(s.Packages, documented(perl)...)
	return s
}

// Subscribe returns what a subscribed RHEL host mounts into its containers, run/secrets, and starts
// the server behind it: it has RPMKernel in the main repository, and RPMOldKernel in that for the
// extended support of its minor version, which on switches on. It answers only those who show the
// certificate.
func (w *RPMWorld) Subscribe(on bool) fstest.MapFS {
	for dir, release := range map[string]string{"dist/rhel9/9": RPMKernel, "eus/rhel9/9.4": RPMOldKernel} {
		r := w.Extra("/content/" + dir + "/x86_64/baseos/os")
		r.Packages = elKernel(release, "kernel", elHeaders+elCore)
		r.Publish()
	}
	ca := testcert.Authority("entitlement")
	client := ca.Client("builder")
	server := httptest.NewUnstartedServer(
		httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: w.Host}),
	)
	server.TLS = &tls.Config{
		ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:  ca.Pool(),
		MinVersion: tls.VersionTLS12,
	}
	server.StartTLS()
	w.t.Cleanup(server.Close)
	repository := func(id, dir string, enabled int) string {
		return fmt.Sprintf(
			"[%s]\nname = Red Hat\nbaseurl = %s/content/%s/$releasever/$basearch/baseos/os\nenabled = %d\ngpgcheck = 1\ngpgkey = file:///%s\nsslverify = 1\n"+
				"sslcacert = /etc/rhsm/ca/redhat-uep.pem\nsslclientkey = /etc/pki/entitlement/12-key.pem\nsslclientcert = /etc/pki/entitlement/12.pem\n",
			id,
			server.URL,
			dir,
			enabled,
			RPMKey,
		)
	}
	extended := 0
	if on {
		extended = 1
	}
	machine := fstest.MapFS{}
	for name, text := range map[string]string{
		"redhat.repo":                    repository("rhel-9-for-x86_64-baseos-rpms", "dist/rhel9", 1) + repository("rhel-9-for-x86_64-baseos-eus-rpms", "eus/rhel9", extended),
		"rhsm/ca/redhat-uep.pem":         testcert.PEM("CERTIFICATE", server.Certificate().Raw),
		"etc-pki-entitlement/12.pem":     client.CertPEM(),
		"etc-pki-entitlement/12-key.pem": client.KeyPEM(),
	} {
		machine["run/secrets/"+name] = &fstest.MapFile{Data: []byte(text), Mode: 0o600}
	}
	return machine
}
