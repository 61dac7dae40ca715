package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
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
	"github.com/driver-container/driver-container/kmod/kmsg"
)

const (
	// where Kubernetes mounts a pod's service account
	accountFolder = "/var/run/secrets/kubernetes.io/serviceaccount"
	// for one request and its answer
	requestWait = 5 * time.Second
	maxAnswer   = 1 << 20 // bytes of an object
	// bytes of a token or of a bundle of certificate authorities
	maxAccount = 1 << 20
)

// Client talks to one API server. It is safe for concurrent use. It reads token and certificate
// authorities again for each request, because the kubelet replaces them while a pod runs.
type Client struct {
	// of the program, for the server's log and in Events; default "nvidia-driver"
	Name string
	Wait time.Duration // for one request and its answer; default 5 s
	// Transport replaces the network and the service account in tests.
	Transport http.RoundTripper

	server string // https://10.96.0.1:443; "": there is none, and every call returns an error
	folder string // has the files token and ca.crt

	mu          sync.Mutex
	authorities []byte
	http        *http.Client
}

// InCluster returns a client for the cluster that this process runs in. It uses the variables that
// Kubernetes sets in every container; without them each call returns ErrNoCluster.
func InCluster(getenv func(string) string) *Client {
	return New(Server(getenv), accountFolder)
}

// Server returns the address of the API server from the variables that Kubernetes sets in every
// container; "" without them.
func Server(getenv func(string) string) string {
	host := getenv("KUBERNETES_SERVICE_HOST")
	port := getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, port)
}

// New returns a client for a server ("https://HOST:PORT") and a folder with the files token and
// ca.crt.
func New(server, folder string) *Client {
	return &Client{
		Name:   "nvidia-driver",
		Wait:   requestWait,
		server: strings.TrimSuffix(server, "/"),
		folder: folder,
	}
}

// Check says what is wrong with the service account.
func (c *Client) Check() error {
	_, _, err := c.account()
	return err
}

// Namespace returns the namespace of the pod from the service account; "" when that does not have
// it.
func (c *Client) Namespace() string {
	text, err := bounded.File(filepath.Join(c.folder, "namespace"), maxAccount)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Request is one call.
type Request struct {
	Method, Path string // see Path
	Query        url.Values
	Kind         string // type of the body; "" without a body
	Body         any
	Metadata     bool  // request only the metadata of the object
	Most         int64 // bytes of the answer; default 1 MiB
}

// Content types of bodies and answers.
const (
	JSON           = "application/json"
	MergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	metadataOnly   = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// Path joins the escaped elements of a path, so that a name cannot change the other elements.
func Path(parts ...string) string {
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/" + strings.Join(parts, "/")
}

// Do sends a request and decodes the answer into answer, if that is not nil.
func (c *Client) Do(ctx context.Context, r Request, answer any) error {
	if c.server == "" {
		return noCluster("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
	}
	client, token, err := c.account()
	if err != nil {
		return noCluster("the pod's service account: %w; is its token mounted in this container?", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	var body io.Reader
	if r.Kind != "" {
		data, err := json.Marshal(r.Body)
		if err != nil {
			return fmt.Errorf("%s %s: %w", r.Method, r.Path, err)
		}
		body = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, c.server+r.Path, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", r.Method, r.Path, err)
	}
	req.URL.RawQuery = r.Query.Encode()
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("User-Agent", c.Name)
	req.Header.Set("Accept", JSON)
	if r.Metadata {
		req.Header.Set("Accept", metadataOnly)
	}
	if r.Kind != "" {
		req.Header.Set("Content-Type", r.Kind)
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %s: %w; it is tried again", ErrUnreachable, c.server, err)
	}
	defer resp.Body.Close()
	// read the body nevertheless, so that the connection can be reused
	if answer == nil && resp.StatusCode/100 == 2 {
		_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer)
		return nil
	}
	most := cmp.Or(r.Most, maxAnswer)
	data, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %s: %w; it is tried again", ErrUnreachable, c.server, err)
	case int64(len(data)) > most:
		return fmt.Errorf("%s %s: the answer has more than %d bytes", r.Method, r.Path, most)
	case resp.StatusCode/100 != 2:
		e := &StatusError{Method: r.Method, Path: r.Path, Code: resp.StatusCode, Message: message(data),
			RetryAfter: parseRetryAfter(resp.Header)}
		_ = json.Unmarshal(data, e) // not every answer is a Status
		return e
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("%s %s: the answer is not what was asked for: %w", r.Method, r.Path, err)
	}
	return nil
}

// message returns the server's error text: the message of a Status object, or the beginning of the
// answer. It goes to logs.
func message(data []byte) string {
	const most = 512
	var status struct{ Message string }
	text := string(data)
	if json.Unmarshal(data, &status) == nil && status.Message != "" {
		text = status.Message
	}
	return truncate(strings.Join(strings.Fields(kmsg.PrintableLines(text)), " "), most)
}

// account reads the token and replaces the HTTP client when the certificate authorities have
// changed.
func (c *Client) account() (*http.Client, string, error) {
	if c.Transport != nil {
		return &http.Client{Transport: c.Transport}, "", nil
	}
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
		c.authorities = authorities
		c.http = newHTTP(pool)
	}
	return c.http, strings.TrimSpace(string(token)), nil
}

// newHTTP returns a client that connects to the server directly: a proxy that a driver's pod is
// given is for packages from outside. The client follows no redirects, since they would carry the
// token to another server.
func newHTTP(pool *x509.CertPool) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig:        &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    requestWait,
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
