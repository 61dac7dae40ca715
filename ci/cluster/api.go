package cluster

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/driver-container/driver-container/ci/testkit/require"
)

// api sends requests to the API server over one connection that stays open: kubectl makes a new one each
// time, and on an emulated server the handshake takes longer than the request.
type api struct {
	server string
	client *http.Client
}

// newAPI returns an api for the administrator, whose kubeconfig package control wrote, in JSON.
func newAPI(t testing.TB, kubeconfig, server string) *api {
	t.Helper()
	text := require.Value(os.ReadFile(kubeconfig))(t)
	var config struct {
		Clusters []struct {
			Cluster struct {
				CA []byte `json:"certificate-authority-data"`
			}
		}
		Users []struct {
			User struct {
				Cert []byte `json:"client-certificate-data"`
				Key  []byte `json:"client-key-data"`
			}
		}
	}
	require.NoError(t, json.Unmarshal(text, &config))
	if len(config.Clusters) != 1 || len(config.Users) != 1 {
		t.Fatalf("%s has %d clusters and %d users", kubeconfig, len(config.Clusters), len(config.Users))
	}
	user, pool := config.Users[0].User, x509.NewCertPool()
	pool.AppendCertsFromPEM(config.Clusters[0].Cluster.CA)
	cert := require.Value(tls.X509KeyPair(user.Cert, user.Key))(t)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}}
	t.Cleanup(transport.CloseIdleConnections)
	return &api{server, &http.Client{Transport: transport}}
}

// requestLimit is the longest time of a request on a quiet machine.
const requestLimit = 20 * time.Second

// get requests a path and decodes the answer into v, which may be nil. Its callers ask again.
func (a *api) get(path string, v any) error { return a.getFor(requestLimit, path, v) }

// getFor is get with another limit.
func (a *api) getFor(limit time.Duration, path string, v any) error {
	const most = 64 << 20
	ctx, cancel := background(limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.server+path, nil)
	if err != nil {
		return err
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, most))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %.300s", path, resp.Status, body)
	}
	if v == nil {
		return nil
	}
	return json.Unmarshal(body, v)
}

// connect makes the administrator's kubeconfig for this guest's port, and the connection.
func (c *Cluster) connect() {
	c.t.Helper()
	text := require.Value(os.ReadFile(filepath.Join(c.base.dir, "kubeconfig")))(c.t)
	c.kubeconfig = filepath.Join(c.t.TempDir(), "kubeconfig")
	server := fmt.Sprintf("https://127.0.0.1:%d", c.machine.api)
	require.NoError(c.t, os.WriteFile(c.kubeconfig, []byte(strings.ReplaceAll(string(text), guestServer, server)), 0o600))
	c.api = newAPI(c.t, c.kubeconfig, server)
}
