package imagetest

import (
	"crypto/tls"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing/fstest"

	"github.com/driver-container/driver-container/ci/testkit/repotest"
	"github.com/driver-container/driver-container/ci/testkit/testcert"
)

// rhel is RHEL 9: the repositories of its base have the compiler and no kernels.
func rhel(w *World) *RPMSystem {
	s := w.newRPMSystem("rhel9", "sqlite")
	s.Row, s.Colour = "    kernels: [5.14]\n", 3
	s.install(".el9")
	s.Files = append(s.Files,
		repotest.File{Name: "etc/os-release", Body: "ID=\"rhel\"\nVERSION_ID=\"9.8\"\n"}, repotest.File{Name: "etc/dnf/dnf.conf", Body: "[main]\ngpgcheck=1\n"},
		repotest.File{Name: "etc/yum.repos.d/ubi.repo", Body: fmt.Sprintf("[ubi-9-baseos-rpms]\nname=UBI\nbaseurl=%s/rhel9/\ngpgkey=file:///%s\n", w.URL, RPMKey)})
	s.toolchain(".el9")
	s.Packages = append(s.Packages, rpmPackage("perl-interpreter", "4:5.32.1-481.el9", nil, rpmProgram("usr/bin/perl")))
	return s
}

// Subscription is what a subscribed RHEL host mounts into its containers, and the server behind it: it has
// RPMKernel in the main repository, and RPMOldKernel in that for the extended support of its minor version.
// It answers only those who show the certificate.
type Subscription struct {
	Machine fstest.MapFS // run/secrets of the host
	server  *httptest.Server
}

// Subscribe starts the server. on switches on the repository for extended support.
func (w *RPMWorld) Subscribe(on bool) *Subscription {
	for dir, release := range map[string]string{"dist/rhel9/9": RPMKernel, "eus/rhel9/9.4": RPMOldKernel} {
		r := w.Extra("/content/" + dir + "/x86_64/baseos/os")
		r.Packages = append([]repotest.RPM{}, elKernel(release, "", false)...)
		r.Publish()
	}
	ca := testcert.Authority("entitlement")
	client := ca.Client("builder")
	target, err := url.Parse(w.URL)
	if err != nil {
		w.t.Fatalf("imagetest: %v", err)
	}
	s := &Subscription{server: httptest.NewUnstartedServer(httputil.NewSingleHostReverseProxy(target))}
	s.server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(), MinVersion: tls.VersionTLS12}
	s.server.StartTLS()
	w.t.Cleanup(s.server.Close)
	repository := func(id, dir string, enabled int) string {
		return fmt.Sprintf("[%s]\nname = Red Hat\nbaseurl = %s/content/%s/$releasever/$basearch/baseos/os\nenabled = %d\ngpgcheck = 1\ngpgkey = file:///%s\nsslverify = 1\n"+
			"sslcacert = /etc/rhsm/ca/redhat-uep.pem\nsslclientkey = /etc/pki/entitlement/12-key.pem\nsslclientcert = /etc/pki/entitlement/12.pem\n", id, s.server.URL, dir, enabled, RPMKey)
	}
	extended := 0
	if on {
		extended = 1
	}
	files := map[string]string{
		"redhat.repo":                    repository("rhel-9-for-x86_64-baseos-rpms", "dist/rhel9", 1) + repository("rhel-9-for-x86_64-baseos-eus-rpms", "eus/rhel9", extended),
		"rhsm/ca/redhat-uep.pem":         testcert.PEM("CERTIFICATE", s.server.Certificate().Raw),
		"etc-pki-entitlement/12.pem":     client.CertPEM(),
		"etc-pki-entitlement/12-key.pem": client.KeyPEM(),
	}
	s.Machine = fstest.MapFS{}
	for name, text := range files {
		s.Machine["run/secrets/"+name] = &fstest.MapFile{Data: []byte(text), Mode: 0o600}
	}
	return s
}
