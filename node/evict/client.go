package evict

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// Connect makes the client of the cluster that this pod runs in. It sends nothing yet. server is the address
// of the API server, https://host:port; dir is the folder with the service account's token and ca.crt, which
// are read again as they rotate. The error is ErrConfig: there is no server, or no token.
func Connect(server, dir, userAgent string) (*rest.RESTClient, error) {
	if server == "" {
		return nil, fmt.Errorf("%w: there is no API server: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set; run this in a pod, or give --server", ErrConfig)
	}
	cfg := &rest.Config{
		Host:            server,
		BearerTokenFile: filepath.Join(dir, "token"),
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(dir, "ca.crt")},
		UserAgent:       userAgent,
		Timeout:         callTimeout,
		QPS:             5, // one node's agent among thousands
		Burst:           10,
	}
	for _, file := range []string{cfg.BearerTokenFile, cfg.CAFile} {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("%w: the service account's token is not mounted: %w; mount a projected token with the cluster's ca.crt into this container", ErrConfig, err)
		}
	}
	client, err := newClient(*cfg)
	if err != nil {
		return nil, errors.Join(ErrConfig, fmt.Errorf("client of %s: %w", server, err))
	}
	return client, nil
}

// newClient makes a client of the core API. client-go's own typed clients would do, but they link the types
// of every API of Kubernetes, which take several times as long to compile as all the rest of this program.
func newClient(cfg rest.Config) (*rest.RESTClient, error) {
	types, err := objectTypes()
	if err != nil {
		return nil, err
	}
	version := corev1.SchemeGroupVersion
	cfg.APIPath, cfg.GroupVersion = "/api", &version
	cfg.NegotiatedSerializer = serializer.NewCodecFactory(types).WithoutConversion()
	return rest.RESTClientFor(&cfg)
}

// objectTypes knows the objects that this program reads and sends.
func objectTypes() (*runtime.Scheme, error) {
	types := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(types), policyv1.AddToScheme(types)); err != nil {
		return nil, fmt.Errorf("register the types of the core and policy APIs: %w", err)
	}
	return types, nil
}

// ServerAddress is the API server as the kubelet tells it to every container; "" when it does not.
func ServerAddress(host, port string) string {
	if host == "" || port == "" {
		return ""
	}
	return "https://" + net.JoinHostPort(host, port) // IPv6 gets its brackets
}

// callTimeout bounds each call of the API.
const callTimeout = 30 * time.Second
