package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// client talks to the API server with the pod's service account.
type client struct {
	server, token string
	http          *http.Client
}

// metadata is what the manager needs of an object.
type metadata struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	Labels          map[string]string `json:"labels"`
	Annotations     map[string]string `json:"annotations"`
	OwnerReferences []struct {
		Kind       string `json:"kind"`
		Controller bool   `json:"controller"`
	} `json:"ownerReferences"`
}

// inCluster returns nil outside of a cluster.
func inCluster() (*client, error) {
	const account = "/var/run/secrets/kubernetes.io/serviceaccount/"
	host := os.Getenv("KUBERNETES_SERVICE_HOST")
	if host == "" {
		return nil, nil
	}
	token, err := os.ReadFile(account + "token")
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(account + "ca.crt")
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return &client{
		server: "https://" + net.JoinHostPort(host, os.Getenv("KUBERNETES_SERVICE_PORT")) + "/api/v1", token: strings.TrimSpace(string(token)),
		http: &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}},
	}, nil
}

// refused is an answer of the API server that is not a success.
type refused struct {
	code int
	text string
}

func (r refused) Error() string { return fmt.Sprintf("HTTP %d: %s", r.code, r.text) }

// do sends one request; kind is the type of the body.
func (c *client) do(method, path, kind string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(method, c.server+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s %s: %w", method, path, refused{resp.StatusCode, string(text)})
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

const mergePatch = "application/merge-patch+json"

func (c *client) readNode(name string) (metadata, error) {
	var node struct {
		Metadata metadata `json:"metadata"`
	}
	return node.Metadata, c.do(http.MethodGet, "/nodes/"+name, "", nil, &node)
}

func (c *client) label(node string, labels map[string]string) error {
	return c.do(http.MethodPatch, "/nodes/"+node, mergePatch, map[string]any{"metadata": map[string]any{"labels": labels}}, nil)
}

func (c *client) cordon(node string, on bool) error {
	return c.do(http.MethodPatch, "/nodes/"+node, mergePatch, map[string]any{"spec": map[string]any{"unschedulable": on}}, nil)
}

// gone waits until a list of pods is empty.
func (c *client) gone(path string, limit time.Duration) error {
	for end := time.Now().Add(limit); ; <-time.After(5 * time.Second) {
		list, err := c.pods(path)
		if err != nil || len(list) == 0 {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d pods still exist after %s", len(list), limit)
		}
	}
}
