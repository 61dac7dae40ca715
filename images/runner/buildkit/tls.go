package buildkit

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/buildkit/client"

	"github.com/driver-container/driver-container/distros/bounded"
)

// TLS says how to connect to daemons at tcp:// addresses. The zero value is plain TCP.
type TLS struct {
	// PEM file: CAs for the daemon's certificate; "": those that this machine trusts
	CA         string
	Cert, Key  string // PEM files: the client certificate, which a daemon with --tlscacert requires
	ServerName string // the name in the daemon's certificate; "": the host of the address
	// folder with ca.pem, cert.pem, key.pem or ca.crt, tls.crt, tls.key; instead of CA, Cert and
	// Key
	Dir string
}

// DefaultTLS returns the TLS of the environment: BUILDKIT_TLS_CACERT, BUILDKIT_TLS_CERT,
// BUILDKIT_TLS_KEY, BUILDKIT_TLS_SERVERNAME and BUILDKIT_TLS_DIR, named after the options of
// buildctl.
func DefaultTLS() TLS {
	return TLS{
		CA: os.Getenv(
			"BUILDKIT_TLS_CACERT",
		), Cert: os.Getenv("BUILDKIT_TLS_CERT"), Key: os.Getenv("BUILDKIT_TLS_KEY"),
		ServerName: os.Getenv("BUILDKIT_TLS_SERVERNAME"), Dir: os.Getenv("BUILDKIT_TLS_DIR"),
	}
}

// maxPEM bounds a certificate with its chain, or a key, in bytes.
const maxPEM = 1 << 20

func (t TLS) options(host string) ([]client.ClientOpt, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	t, err := t.resolve()
	if err != nil {
		return nil, err
	}
	// BuildKit's client reads them whole, whatever they are
	for _, file := range []string{t.CA, t.Cert, t.Key} {
		if file == "" {
			continue
		}
		if _, err := bounded.File(file, maxPEM); err != nil {
			return nil, fmt.Errorf("read the TLS files for a buildkitd: %w", err)
		}
	}
	opts := []client.ClientOpt{client.WithServerConfigSystem(cmp.Or(t.ServerName, host))}
	if t.CA != "" {
		opts = []client.ClientOpt{client.WithServerConfig(cmp.Or(t.ServerName, host), t.CA)}
	}
	if t.Cert != "" {
		opts = append(opts, client.WithCredentials(t.Cert, t.Key))
	}
	return opts, nil
}

// resolve returns t with the files of Dir in CA, Cert and Key.
func (t TLS) resolve() (TLS, error) {
	switch {
	case t.Dir == "" && (t.Cert == "") != (t.Key == ""):
		return t, errors.New(
			"a client certificate and its key are needed together: only one of them is given",
		)
	case t.Dir == "":
		return t, nil
	case t.CA != "" || t.Cert != "" || t.Key != "":
		return t, errors.New("give either a folder of TLS files or the files themselves, not both")
	}
	for to, names := range map[*string][2]string{
		&t.CA: {"ca.pem", "ca.crt"}, &t.Cert: {"cert.pem", "tls.crt"}, &t.Key: {"key.pem", "tls.key"},
	} {
		for _, name := range names {
			file := filepath.Join(t.Dir, name)
			_, err := os.Stat(file)
			if err != nil || *to != "" {
				continue
			}
			*to = file
		}
		if *to == "" {
			return t, fmt.Errorf(
				"the TLS folder %s has neither of %s",
				t.Dir,
				strings.Join(names[:], " and "),
			)
		}
	}
	return t, nil
}
