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

// Subscribe returns what a subscribed RHEL host mounts into its containers, run/secrets, and starts
// the server behind it: it has RPMKernel in the main repository, and RPMOldKernel in that for the
// extended support of its minor version, which on switches on. It answers only those who show the
// certificate.
func (w *RPMWorld) Subscribe(on bool) fstest.MapFS {
	for dir, release := range map[string]string{"dist/rhel9/9": RPMKernel, "eus/rhel9/9.4": RPMOldKernel} {
		r := w.Extra("/content/" + dir + "/x86_64/baseos/os")
		r.Packages = rpmsOf(elKernel(release, "kernel", elHeaders+elCore))
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
