package buildkit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/buildkit/client"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/driver-container/driver-container/distros/bounded"
	"github.com/driver-container/driver-container/images/registry/transport"
	"github.com/driver-container/driver-container/images/runner/buildkit/dialstdio"
)

// TLS says how to connect to daemons at tcp:// addresses. The zero value is plain TCP.
type TLS struct {
	CA         string // PEM file: CAs for the daemon's certificate; "": those that this machine trusts
	Cert, Key  string // PEM files: the client certificate, which a daemon with --tlscacert requires
	ServerName string // the name in the daemon's certificate; "": the host of the address
	Dir        string // folder with ca.pem, cert.pem, key.pem or ca.crt, tls.crt, tls.key; instead of CA, Cert and Key
}

// DefaultTLS returns the TLS of the environment: BUILDKIT_TLS_CACERT, BUILDKIT_TLS_CERT, BUILDKIT_TLS_KEY,
// BUILDKIT_TLS_SERVERNAME and BUILDKIT_TLS_DIR, named after the options of buildctl.
func DefaultTLS() TLS {
	return TLS{
		CA: os.Getenv("BUILDKIT_TLS_CACERT"), Cert: os.Getenv("BUILDKIT_TLS_CERT"), Key: os.Getenv("BUILDKIT_TLS_KEY"),
		ServerName: os.Getenv("BUILDKIT_TLS_SERVERNAME"), Dir: os.Getenv("BUILDKIT_TLS_DIR"),
	}
}

// Check finds mistakes in addresses, and in the files of the TLS if an address needs it, without network.
func Check(addresses []string, t TLS) error {
	for _, address := range addresses {
		u, _, err := checkAddress(address)
		if err == nil && u.Scheme == "tcp" {
			err = t.check()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// FindPrograms looks for the programs that addresses need on this machine, such as kubectl.
func FindPrograms(addresses []string) error {
	for _, address := range addresses {
		_, d, err := checkAddress(address)
		if err == nil && d != nil {
			err = d.Find()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxPEM bounds a certificate with its chain, or a key, in bytes.
const maxPEM = 1 << 20

// check reads the files.
func (t TLS) check() error {
	t, err := t.resolve()
	if err != nil {
		return err
	}
	if t.CA != "" {
		if _, err := transport.Authorities(t.CA); err != nil {
			return fmt.Errorf("the authority of a buildkitd's certificate: %w", err)
		}
	}
	if t.Cert == "" {
		return nil
	}
	var pair [2][]byte
	for n, file := range []string{t.Cert, t.Key} {
		if pair[n], err = bounded.File(file, maxPEM); err != nil {
			return fmt.Errorf("read the client certificate for a buildkitd: %w", err)
		}
	}
	if _, err := tls.X509KeyPair(pair[0], pair[1]); err != nil {
		return fmt.Errorf("read the client certificate for a buildkitd: %w", err)
	}
	return nil
}

// schemes are the forms of addresses, and what each must have after the slashes.
var schemes = map[string]struct{ needsHost, needsPath bool }{
	"unix":              {needsPath: true},
	"tcp":               {needsHost: true},
	"docker-container":  {needsHost: true},
	"podman-container":  {needsHost: true},
	"nerdctl-container": {needsHost: true},
	"kube-pod":          {needsHost: true},
	"ssh":               {needsHost: true},
}

// dial prepares a connection, which is made in the background. It fails only for invalid addresses and files.
func dial(ctx context.Context, address string, t TLS, tell func(string)) (*daemon, error) {
	u, program, err := checkAddress(address)
	if err != nil {
		return nil, err
	}
	if program != nil {
		if err := program.Find(); err != nil {
			return nil, unavailable("connect to BuildKit", err)
		}
	}
	d := &daemon{address: address, program: program, notify: tell}
	opts := []client.ClientOpt{client.WithGRPCDialOption(grpc.WithConnectParams(connectParams(d.answerTime())))}
	if program != nil {
		opts = append(opts, client.WithContextDialer(program.Dial))
	}
	if u.Scheme == "tcp" {
		o, err := t.options(u.Hostname())
		if err != nil {
			return nil, fmt.Errorf("connect to buildkitd at %s: %w", address, err)
		}
		opts = append(opts, o...)
	}
	if d.client, err = client.New(ctx, address, opts...); err != nil {
		return nil, fmt.Errorf("connect to buildkitd at %s: %w", address, err)
	}
	return d, nil
}

// connectParams let the client reconnect to a restarted daemon within seconds: gRPC's default is up to two
// minutes.
func connectParams(limit time.Duration) grpc.ConnectParams {
	b := backoff.DefaultConfig
	b.BaseDelay, b.MaxDelay = 200*time.Millisecond, 5*time.Second
	return grpc.ConnectParams{Backoff: b, MinConnectTimeout: limit}
}

// checkAddress reads an address. The dialer is nil if the address needs no program.
func checkAddress(address string) (*url.URL, *dialstdio.Dialer, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, fmt.Errorf("the address %q of a buildkitd cannot be read: %w", address, errors.Unwrap(err))
	}
	s, ok := schemes[u.Scheme]
	if !ok {
		return nil, nil, fmt.Errorf("the address %q of a buildkitd is of no known form: "+
			"use unix:///SOCKET, tcp://HOST:PORT, docker-container://NAME, podman-container://NAME, nerdctl-container://NAME, kube-pod://POD or ssh://USER@HOST", address)
	}
	switch {
	case s.needsPath && (u.Host != "" || len(u.Path) < 2):
		return nil, nil, fmt.Errorf("the address %q of a buildkitd has no absolute path: write unix:///run/buildkit/buildkitd.sock", address)
	case s.needsHost && u.Hostname() == "":
		return nil, nil, fmt.Errorf("the address %q of a buildkitd has no name after %s://", address, u.Scheme)
	case u.Scheme == "tcp" && u.Port() == "":
		return nil, nil, fmt.Errorf("the address %q of a buildkitd has no port: 1234 is the usual one", address)
	}
	d, err := dialstdio.New(u)
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // it names the address
	}
	return u, d, nil
}

func (t TLS) options(host string) ([]client.ClientOpt, error) {
	if t == (TLS{}) {
		return nil, nil
	}
	t, err := t.resolve()
	if err != nil {
		return nil, err
	}
	if t.ServerName == "" {
		t.ServerName = host
	}
	var opts []client.ClientOpt
	if t.CA != "" {
		opts = append(opts, client.WithServerConfig(t.ServerName, t.CA))
	} else {
		opts = append(opts, client.WithServerConfigSystem(t.ServerName))
	}
	if t.Cert != "" || t.Key != "" {
		opts = append(opts, client.WithCredentials(t.Cert, t.Key))
	}
	return opts, nil
}

// resolve returns t with the files of Dir in CA, Cert and Key.
func (t TLS) resolve() (TLS, error) {
	if t.Dir == "" {
		if (t.Cert == "") != (t.Key == "") {
			return t, errors.New("a client certificate and its key are needed together: only one of them is given")
		}
		return t, nil
	}
	if t.CA != "" || t.Cert != "" || t.Key != "" {
		return t, errors.New("give either a folder of TLS files or the files themselves, not both")
	}
	var err error
	for _, f := range []struct {
		to    *string
		names [2]string
	}{{&t.CA, [2]string{"ca.pem", "ca.crt"}}, {&t.Cert, [2]string{"cert.pem", "tls.crt"}}, {&t.Key, [2]string{"key.pem", "tls.key"}}} {
		if *f.to, err = oneOf(t.Dir, f.names); err != nil {
			return t, err
		}
	}
	return t, nil
}

func oneOf(dir string, names [2]string) (string, error) {
	for _, name := range names {
		path := filepath.Join(dir, name)
		_, err := os.Stat(path)
		if err == nil {
			return path, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("the TLS folder %s has neither of %s", dir, strings.Join(names[:], " and "))
}
