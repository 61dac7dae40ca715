package kubernetes

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/driver-container/driver-container/distros/bounded"
)

const (
	accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount" // where Kubernetes mounts a pod's service account
	requestWait   = 5 * time.Second                                 // for one request and its answer
	maxAnswer     = 1 << 20                                         // bytes of an object; of nodes only the metadata is requested, except for taints
	maxAccount    = 1 << 20                                         // bytes of a token or of a bundle of certificate authorities
)

// Client talks to one API server. It is safe for concurrent use. It reads token and certificate authorities
// again for each request, because the kubelet replaces them while a pod runs.
type Client struct {
	server string // https://10.96.0.1:443; "": there is none, and every call returns an error
	folder string // has the files token and ca.crt
	wait   time.Duration

	mu          sync.Mutex
	authorities []byte
	http        *http.Client
}

// InCluster returns a client for the cluster that this process runs in. It uses the variables that Kubernetes
// sets in every container; without them each call returns ErrNoCluster.
func InCluster(getenv func(string) string) *Client {
	host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return New("", accountFolder)
	}
	return New("https://"+net.JoinHostPort(host, port), accountFolder)
}

// New returns a client for a server ("https://HOST:PORT") and a folder with the files token and ca.crt.
func New(server, folder string) *Client {
	return &Client{server: strings.TrimSuffix(server, "/"), folder: folder, wait: requestWait}
}

// Namespace returns the namespace of the pod from the service account; "" when that does not have it.
func (c *Client) Namespace() string {
	text, err := bounded.File(filepath.Join(c.folder, "namespace"), maxAccount)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// request is one call. Its path is made with urlPath.
type request struct {
	method, path, kind string // kind is the type of the body; "" without a body
	body               any
	metadata           bool // request only the metadata of the object
}

// Content types of bodies and answers.
const (
	jsonBody       = "application/json"
	jsonPatch      = "application/json-patch+json"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	metadataOnly   = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// urlPath joins the escaped elements of a path, so that a name cannot change the other elements.
func urlPath(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/" + strings.Join(parts, "/")
}

// do sends a request and decodes the answer into answer, if that is not nil.
func (c *Client) do(ctx context.Context, r request, answer any) error {
	if c.server == "" {
		return &noClusterError{errors.New("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")}
	}
	client, token, err := c.account()
	if err != nil {
		return &noClusterError{fmt.Errorf("the pod's service account: %w; is its token mounted in this container?", err)}
	}
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	var body io.Reader
	if r.kind != "" {
		data, err := json.Marshal(r.body)
		if err != nil {
			return fmt.Errorf("%s %s: %w", r.method, r.path, err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.server+r.path, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.method, r.path, err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("User-Agent", "nvidia-driver")
	req.Header.Set("Accept", jsonBody)
	if r.metadata {
		req.Header.Set("Accept", metadataOnly)
	}
	if r.kind != "" {
		req.Header.Set("Content-Type", r.kind)
	}
	resp, err := client.Do(req)
	if err != nil {
		return &unreachableError{c.server, err}
	}
	defer resp.Body.Close()
	if answer == nil && resp.StatusCode/100 == 2 { // read the body nevertheless, so that the connection can be reused
		_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
		return nil
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return &unreachableError{c.server, err}
	case len(data) > maxAnswer:
		return fmt.Errorf("%s %s: the answer has more than %d bytes", r.method, r.path, maxAnswer)
	case resp.StatusCode/100 != 2:
		return &StatusError{Method: r.method, Path: r.path, Code: resp.StatusCode, Message: message(data)}
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("%s %s: the answer is not what was asked for: %w", r.method, r.path, err)
	}
	return nil
}

// message returns the server's error text: the message of a Status object, or the beginning of the answer. It
// goes to logs.
func message(data []byte) string {
	const most = 512
	var status struct{ Message string }
	text := string(data)
	if json.Unmarshal(data, &status) == nil && status.Message != "" {
		text = status.Message
	}
	text = strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))), " ")
	return truncate(text, most)
}

// account reads the token and replaces the HTTP client when the certificate authorities have changed.
func (c *Client) account() (*http.Client, string, error) {
	token, err := bounded.File(filepath.Join(c.folder, "token"), maxAccount)
	if err != nil {
		return nil, "", err
	}
	authorities, err := bounded.File(filepath.Join(c.folder, "ca.crt"), maxAccount)
	if err != nil {
		return nil, "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.http == nil || !bytes.Equal(authorities, c.authorities) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(authorities) {
			return nil, "", fmt.Errorf("%s has no certificate", filepath.Join(c.folder, "ca.crt"))
		}
		if c.http != nil {
			c.http.CloseIdleConnections()
		}
		c.authorities, c.http = authorities, newHTTP(pool)
	}
	return c.http, strings.TrimSpace(string(token)), nil
}

// newHTTP returns a client that connects to the server directly: a proxy that a driver's pod is given is for
// packages from outside. The client follows no redirects, since they would carry the token to another server.
func newHTTP(pool *x509.CertPool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:        &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    requestWait,
			ResponseHeaderTimeout:  requestWait,
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConns:           1,
			// Longer than the interval between two polls, shorter than that between two heartbeats.
			IdleConnTimeout: 10 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// truncate shortens a text to at most this many bytes, between characters.
func truncate(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-3], "") + "..."
}
